#!/bin/sh
# Start a program with the passwords that lie in files:  with-secrets PROGRAM ARGUMENT...
#   PREFECT_AUTH_FILE   user:password of Prefect's API, which Prefect takes from the environment alone
#   PGPASSWORD_FILE     password of the PostgreSQL login, without colon and backslash; its drivers want a file
#                       that is closed to others, and differ on how these two are written there
# Both files are optional, but no server of Prefect's starts without a password. The agency's
# secret and officers' keys are never handed over here.
set -eu
umask 077
refuse() {
  echo "with-secrets: $1" >&2
  exit 2
}
if [ -n "${PREFECT_AUTH_FILE:-}" ]; then
  PREFECT_API_AUTH_STRING=$(cat "$PREFECT_AUTH_FILE")
  # Prefect takes an empty one as the wish for none.
  case $PREFECT_API_AUTH_STRING in
    ?*:????????*) ;;
    *) refuse "$PREFECT_AUTH_FILE: not user:password with eight characters or more; write it again" ;;
  esac
  PREFECT_SERVER_API_AUTH_STRING=$PREFECT_API_AUTH_STRING
  export PREFECT_API_AUTH_STRING PREFECT_SERVER_API_AUTH_STRING
else
  case " $* " in
    *" server start "*) refuse "PREFECT_AUTH_FILE: not set; name the file with the API's user:password" ;;
  esac
fi
if [ -n "${PGPASSWORD_FILE:-}" ]; then
  if grep -q '[\\:]' "$PGPASSWORD_FILE"; then
    refuse "$PGPASSWORD_FILE: a colon or a backslash in the password; choose one without"
  fi
  PGPASSFILE=$(mktemp)
  export PGPASSFILE
  sed 's/^/*:*:*:*:/' "$PGPASSWORD_FILE" > "$PGPASSFILE"
fi
exec "$@"
