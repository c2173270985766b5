#!/usr/bin/env bash
# Install the package with its test dependencies, then run the linter and the fast CPU tests.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "The tests take 7 GB of disk and 7 minutes on two idle cores of an AMD EPYC, more on busy ones"
bash tools/setup_env.sh lite,test
PATH="$(cd "${VENV:-.venv}/bin" && pwd):$PATH"
PYTHON=python # from the environment
export PATH PYTHON
unset PYTHONDONTWRITEBYTECODE # each process would compile what it imports
ruff check .
# Files have an encoding, whatever that of the system.
ruff check --preview --select PLW1514 mmvidformer lab tools
ruff format --check .
# Tests wait for disks: their files are in memory, where there is much. Names of sockets are short.
if [ "$(df --output=avail -m /dev/shm 2>/dev/null | tail -n 1)" -gt 6000 ] 2>/dev/null; then
    TMPDIR=$(mktemp -d /dev/shm/XXXXXX)
    export TMPDIR
    trap 'rm -rf "$TMPDIR"' EXIT
    set -- --basetemp="$TMPDIR/tests" "$@"
fi
# And for each other: three for two cores.
cores=$(python -c "import os; print(os.cpu_count())")
python -m pytest -n $((cores < 6 ? cores + cores / 2 : 8)) --dist loadfile --no-loadscope-reorder "$@"
