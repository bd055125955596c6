#!/bin/sh
# Writes Spark's configuration, into memory, and becomes the command. Nobody runs anything on Spark who does not know
# the secret: master, worker and driver are asked for it.
set -eu
umask 077
mkdir -p "$SPARK_CONF_DIR"
cat > "$SPARK_CONF_DIR/spark-defaults.conf" <<CONFIGURATION
spark.authenticate true
spark.authenticate.secret ${TREELINE_SPARK_SECRET:?is not set}
CONFIGURATION
unset TREELINE_SPARK_SECRET
exec "$@"
