"""What runs on Spark: data sources, transforms, jobs. Started by a Celery worker or by spark-submit."""
