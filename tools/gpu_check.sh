#!/usr/bin/env bash
# Check the package on one GPU in 9 minutes: tools/gpu_check.sh [arguments of benchmarks.gpu_check]
# Installs .venv first. WHEELS=FOLDER installs it offline from a folder of wheels; PYTHON=python uses
# that interpreter and installs nothing. Without a GPU nothing is installed, and all parts are skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ -n "${WHEELS:-}" ]; then
    PIP_FIND_LINKS=$(cd "$WHEELS" && pwd)
    export PIP_NO_INDEX=1 PIP_FIND_LINKS
fi
if [ -z "${PYTHON:-}" ]; then
    PYTHON=python3
    if nvidia-smi --list-gpus >/dev/null 2>&1; then
        # Without an environment, the parts report what is missing.
        bash tools/setup_env.sh lite,test,torchcodec || bash tools/setup_env.sh lite,test ||
            echo "installation failed" >&2
    fi
    [ ! -x "${VENV:-.venv}/bin/python" ] || PYTHON=${VENV:-.venv}/bin/python
fi
exec "$PYTHON" -m benchmarks.gpu_check --spent "$SECONDS" "$@"
