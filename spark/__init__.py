"""Code that runs on Spark: data sources, transforms and jobs, started by a Celery worker or by spark-submit."""
