#!/bin/sh
# Start a program with the passwords that lie in files:  with-secrets PROGRAM ARGUMENT...
#   PREFECT_AUTH_FILE   user:password of Prefect's API, which Prefect takes from the environment alone
#   PGPASSWORD_FILE     password of the PostgreSQL login, without colon and backslash; its drivers want a file
#                       that is closed to others, and differ on how these two are written there
# Both files are optional. The agency's secret and officers' keys are never handed over here.
set -eu
umask 077
if [ -n "${PREFECT_AUTH_FILE:-}" ]; then
  PREFECT_API_AUTH_STRING=$(cat "$PREFECT_AUTH_FILE")
  PREFECT_SERVER_API_AUTH_STRING=$PREFECT_API_AUTH_STRING
  export PREFECT_API_AUTH_STRING PREFECT_SERVER_API_AUTH_STRING
fi
if [ -n "${PGPASSWORD_FILE:-}" ]; then
  if grep -q '[\\:]' "$PGPASSWORD_FILE"; then
    echo "with-secrets: $PGPASSWORD_FILE: a colon or a backslash in the password; choose one without" >&2
    exit 2
  fi
  PGPASSFILE=$(mktemp)
  export PGPASSFILE
  sed 's/^/*:*:*:*:/' "$PGPASSWORD_FILE" > "$PGPASSFILE"
fi
exec "$@"
