#!/usr/bin/env bash
# Test with several processes, one per GPU, or on the CPU if there is no GPU.
#   tools/dist_test.sh CONFIG CHECKPOINT PROCESSES [arguments of test.py]
# For several nodes, run it on each node with NNODES, NODE_RANK, MASTER_ADDR and PORT set.
set -euo pipefail

if [ $# -lt 3 ]; then
    echo "usage: $0 CONFIG CHECKPOINT PROCESSES [arguments of test.py]" >&2
    exit 2
fi
CONFIG=$1
CHECKPOINT=$2
GPUS=$3

HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/dist_env.sh"
"$PYTHON" -m torch.distributed.run "${RENDEZVOUS[@]}" \
    "$HERE/test.py" "$CONFIG" "$CHECKPOINT" --launcher pytorch "${@:4}"
