#!/usr/bin/env bash
# Install the package with its test dependencies, then run the linter and the fast CPU tests.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "The tests take 7 GB of disk and 12 minutes on two idle cores of an Intel Xeon, more on busy ones"
bash tools/setup_env.sh lite,test
PATH="$(cd "${VENV:-.venv}/bin" && pwd):$PATH"
PYTHON=python # from the environment
export PATH PYTHON
ruff check .
# Files have an encoding, whatever that of the system.
ruff check --preview --select PLW1514 mmvidformer lab tools
ruff format --check .
python -m pytest -n auto --maxprocesses 8 --dist loadfile "$@"
