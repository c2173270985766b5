#!/usr/bin/env bash
# Train with several processes, one per GPU, or on the CPU if there is no GPU.
#   tools/dist_train.sh CONFIG PROCESSES [arguments of train.py]
# For several nodes, run it on each node with NNODES, NODE_RANK, MASTER_ADDR and PORT set.
set -euo pipefail

if [ $# -lt 2 ]; then
    echo "usage: $0 CONFIG PROCESSES [arguments of train.py]" >&2
    exit 2
fi
HERE=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$HERE/..${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python}" "$HERE/train.py" "$1" --procs "$2" "${@:3}"
