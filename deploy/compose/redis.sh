#!/bin/sh
# Starts redis-server with a configuration in the working directory, which is in memory: the password is in no file
# that is shipped, and in no process's arguments. Further arguments are redis-server's.
set -eu
umask 077
cat > redis.conf <<CONFIGURATION
requirepass ${REDISCLI_AUTH:?is not set}
save ""
appendonly no
CONFIGURATION
exec redis-server "$PWD/redis.conf" "$@"
