#!/usr/bin/env bash
# Install the package with its test tools and run every test that needs no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
bash tools/setup_env.sh lite,test
PATH="$(cd "${VENV:-.venv}/bin" && pwd):$PATH"
PYTHON=python # that of the environment
export PATH PYTHON
ruff check .
ruff format --check .
python -m pytest "$@"
