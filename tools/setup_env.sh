#!/usr/bin/env bash
# Create the environment .venv and install the package in it: tools/setup_env.sh [EXTRAS]
# Python 3.11 gets the versions in constraints.txt, which CI uses; other versions of Python get the
# newest that setup.cfg allows. VENV sets another folder, PYTHON another interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
VENV=${VENV:-.venv}
EXTRAS=${1:-lite}

[ -x "$VENV/bin/python" ] || "${PYTHON:-python3}" -m venv "$VENV"
VERSIONS=()
if "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
    VERSIONS=(-c constraints.txt)
fi
PIP=("$VENV/bin/python" -m pip install --quiet --disable-pip-version-check)
"${PIP[@]}" ${VERSIONS[@]+"${VERSIONS[@]}"} --upgrade "pip>=24"
echo "installing mmvidformer[$EXTRAS] into $VENV (about 6 GB the first time)"
"${PIP[@]}" ${VERSIONS[@]+"${VERSIONS[@]}"} -e ".[$EXTRAS]"
