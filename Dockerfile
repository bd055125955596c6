# One image for every process of the control plane; docker-compose.yml gives each its command.

FROM node:20-slim AS frontend
WORKDIR /frontend
COPY frontend/package.json frontend/package-lock.json frontend/.npmrc ./
RUN npm ci --omit=dev --no-progress --loglevel=error

FROM python:3.11-slim AS packages
RUN python -m venv /venv
COPY requirements/runtime.txt /tmp/runtime.txt
RUN /venv/bin/pip install --no-cache-dir --require-hashes --no-deps -r /tmp/runtime.txt
# PySpark comes as source; it is built with the setuptools that is pinned.
COPY requirements/spark.txt /tmp/spark.txt
RUN /venv/bin/pip install --no-cache-dir --require-hashes --no-deps --no-build-isolation -r /tmp/spark.txt

# The record loop in C, for the very confluent-kafka of the image.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
WORKDIR /treeline
COPY backend/__init__.py backend/locations.py backend/
COPY backend/kafka backend/kafka
RUN /venv/bin/python -m backend.kafka.copy.native.build && ls backend/kafka/copy/native/_record_loop.*.so

FROM python:3.11-slim
# Java is for Spark, in the worker that translates offsets.
RUN apt-get update && apt-get install -y --no-install-recommends default-jre-headless && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin treeline
WORKDIR /treeline
COPY --from=packages /venv /venv
COPY --from=frontend /frontend/node_modules frontend/node_modules
COPY alembic.ini ./
COPY migrations migrations
COPY frontend/third-party.json frontend/third-party.json
COPY frontend/components frontend/components
COPY frontend/static frontend/static
COPY frontend/templates frontend/templates
COPY backend backend
COPY --from=packages /treeline/backend/kafka/copy/native backend/kafka/copy/native
COPY spark spark
COPY workers workers
# Nothing is written at run time: compiled modules come with the image.
RUN /venv/bin/python -m compileall -q backend spark workers migrations
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
CMD ["python", "-m", "uvicorn", "backend.asgi:app", "--host", "0.0.0.0", "--port", "8000", "--log-level", "warning", "--timeout-keep-alive", "75", "--no-proxy-headers"]
