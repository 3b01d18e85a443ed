#!/bin/sh
# Logins and databases of an installation: one database for Prefect, one for the ledger. Right to run again.
# The image of PostgreSQL runs it when it makes its cluster; elsewhere run it as a superuser, with PASSWORDS
# naming the folder of the password files. What each role of the ledger may do says `tabularium ledger roles`.
set -eu
export PASSWORDS="${PASSWORDS:-/run/secrets}"
psql -v ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres --quiet <<'END'
-- Read here, so that no password stands on a command line.
\set prefect `cat "$PASSWORDS/prefect_password"`
\set owner `cat "$PASSWORDS/ledger_password"`
\set runner `cat "$PASSWORDS/runner_password"`
\set officer `cat "$PASSWORDS/officer_password"`
SELECT format('CREATE ROLE %I', name)
FROM unnest(ARRAY['prefect', 'ledger_owner', 'runner', 'officer', 'tabularium_writer', 'tabularium_officer']) name
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec
ALTER ROLE prefect LOGIN PASSWORD :'prefect';
ALTER ROLE ledger_owner LOGIN PASSWORD :'owner';
ALTER ROLE runner LOGIN PASSWORD :'runner';
ALTER ROLE officer LOGIN PASSWORD :'officer';
GRANT tabularium_writer TO runner;
GRANT tabularium_officer TO officer;
ALTER ROLE officer SET idle_in_transaction_session_timeout = '1min';
ALTER ROLE runner SET idle_in_transaction_session_timeout = '1min';
SELECT format('CREATE DATABASE %I OWNER %I ENCODING ''UTF8'' TEMPLATE template0', name, owner)
FROM (VALUES ('prefect', 'prefect'), ('books', 'ledger_owner')) wanted (name, owner)
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = name) \gexec
REVOKE CONNECT ON DATABASE prefect FROM PUBLIC;
GRANT CONNECT ON DATABASE books TO runner, officer;
\connect books
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
END
