#!/usr/bin/env bash
# Make the environment .venv and install the package into it: tools/setup_env.sh [EXTRAS]
# The versions are those of constraints.txt. Another folder: VENV=path; another Python: PYTHON=...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
VENV=${VENV:-.venv}
EXTRAS=${1:-lite}

[ -x "$VENV/bin/python" ] || "${PYTHON:-python3}" -m venv "$VENV"
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade "pip>=24" -c constraints.txt
echo "installing mmvidformer[$EXTRAS] into $VENV (about 6 GB the first time)"
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$EXTRAS]"
