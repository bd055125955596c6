"""Jobs for spark-submit; a Celery worker runs the same in its resident session."""
