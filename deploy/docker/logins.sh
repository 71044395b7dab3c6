#!/bin/sh
# Runs once, when the database is made: a login for workers, which gets its rights from `pushq-admin worker grant`.
set -eu
psql --set ON_ERROR_STOP=1 --quiet --no-psqlrc --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\getenv password WORKER_PASSWORD
create role worker login password :'password';
SQL
