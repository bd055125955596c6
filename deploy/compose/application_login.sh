#!/bin/sh
# Run once by postgres's image, when its database is made: the login of the control plane. The first migration lets
# it become the role that cannot change history. The password comes from the environment, never as an argument.
set -e
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\getenv password TREELINE_APPLICATION_PASSWORD
CREATE ROLE treeline_login LOGIN PASSWORD :'password';
SQL
