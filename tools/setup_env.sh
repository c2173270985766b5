#!/usr/bin/env bash
# Create the environment .venv and install the package in it: tools/setup_env.sh [EXTRAS]
# The versions are those in constraints/ for the version of Python. STACK=oldest installs the oldest
# that setup.cfg allows (on Python 3.10), STACK=newest the newest. VENV sets another folder, PYTHON
# another interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
VENV=${VENV:-.venv}
EXTRAS=${1:-lite}

[ -x "$VENV/bin/python" ] || "${PYTHON:-python3}" -m venv "$VENV"
case ${STACK:-} in
    newest) FILE= ;;
    oldest) FILE=constraints/oldest.txt ;;
    "") FILE=constraints/$("$VENV/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])').txt ;;
    *) echo "STACK must be oldest or newest, got $STACK" >&2; exit 1 ;;
esac
VERSIONS=()
if [ -f "$FILE" ]; then
    VERSIONS=(-c "$FILE")
fi
PIP=("$VENV/bin/python" -m pip install --quiet --disable-pip-version-check)
"${PIP[@]}" ${VERSIONS[@]+"${VERSIONS[@]}"} --upgrade "pip>=24"
echo "installing mmvidformer[$EXTRAS] into $VENV (7 GB the first time)"
"${PIP[@]}" ${VERSIONS[@]+"${VERSIONS[@]}"} -e ".[$EXTRAS]"
