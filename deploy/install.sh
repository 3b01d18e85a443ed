#!/bin/sh
# Install Tabularium from its source into a prefix of its own, in the versions of constraints.txt:
#   deploy/install.sh SOURCE PREFIX        PYTHON, if set, is the interpreter to use
# The image is made by it, and so is an installation on a machine. What is installed is read-only;
# the source is left as it was.
set -eu
umask 022
source=$(cd "$1" && pwd)
prefix=$2
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Python 3.11 or later is needed; name one in PYTHON" >&2
  exit 1
}
# What root installs is for other users, who may go through no folder that is closed to them.
"$python" - <<'END' || exit 1
import os, pathlib, sys
python = pathlib.Path(sys.executable).resolve()
closed = [str(folder) for folder in python.parents if not folder.stat().st_mode & 0o001]
if closed and os.geteuid() == 0:
    sys.exit(f"{python}: other users cannot run this Python, {closed[-1]} is closed to them; "
             "name one of the system's, as in PYTHON=/usr/bin/python3")
END
echo "Installing into $prefix: some minutes without a word"
# Setuptools builds inside the folder it is given: a copy, in which no earlier build has left anything.
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
for name in pyproject.toml README.md LICENSE tabularium mechanisms ledger validations tasks flows lab; do
  cp -R "$source/$name" "$build"
done

"$python" -m venv "$prefix"
pip() { "$prefix/bin/python" -m pip --no-cache-dir --disable-pip-version-check "$@"; }
pip install --quiet -c "$source/constraints.txt" setuptools
pip install --quiet -c "$source/constraints.txt" --no-build-isolation "$build[all,postgres,s3]"
pip check
install -m 0755 "$source/deploy/with-secrets.sh" "$prefix/bin/with-secrets"
"$prefix/bin/tabularium" --version
chmod -R a-w "$prefix"
