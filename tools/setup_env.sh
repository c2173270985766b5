#!/usr/bin/env bash
# Create the environment .venv and install the package in it: tools/setup_env.sh [EXTRAS]
# The versions are those in constraints/ for the version of Python; NEWEST=1 installs the newest that
# setup.cfg allows. VENV sets another folder, PYTHON another interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
VENV=${VENV:-.venv}
EXTRAS=${1:-lite}

[ -x "$VENV/bin/python" ] || "${PYTHON:-python3}" -m venv "$VENV"
VERSIONS=()
FILE=constraints/$("$VENV/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])').txt
if [ -z "${NEWEST:-}" ] && [ -f "$FILE" ]; then
    VERSIONS=(-c "$FILE")
fi
PIP=("$VENV/bin/python" -m pip install --quiet --disable-pip-version-check)
"${PIP[@]}" ${VERSIONS[@]+"${VERSIONS[@]}"} --upgrade "pip>=24"
echo "installing mmvidformer[$EXTRAS] into $VENV (about 6 GB the first time)"
"${PIP[@]}" ${VERSIONS[@]+"${VERSIONS[@]}"} -e ".[$EXTRAS]"
