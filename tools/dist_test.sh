#!/usr/bin/env bash
# Test with several processes, one per GPU, or on the CPU if there is no GPU.
#   tools/dist_test.sh CONFIG CHECKPOINT PROCESSES [arguments of test.py]
# For several nodes, run it on each node with NNODES, NODE_RANK, MASTER_ADDR and PORT set.
set -euo pipefail

if [ $# -lt 3 ]; then
    echo "usage: $0 CONFIG CHECKPOINT PROCESSES [arguments of test.py]" >&2
    exit 2
fi
HERE=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$HERE/..${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python}" "$HERE/test.py" "$1" "$2" --procs "$3" "${@:4}"
