"""Jobs for spark-submit; Celery workers run the same code in their resident session."""
