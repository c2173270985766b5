#!/usr/bin/env bash
# Test under Slurm, with one task per GPU.
#   [GPUS=8 GPUS_PER_NODE=8 CPUS_PER_TASK=16 SRUN_ARGS=""] \
#       tools/slurm_test.sh PARTITION JOB_NAME CONFIG CHECKPOINT [arguments of test.py]
set -euo pipefail

if [ $# -lt 4 ]; then
    echo "usage: $0 PARTITION JOB_NAME CONFIG CHECKPOINT [arguments of test.py]" >&2
    exit 2
fi
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/slurm_env.sh"
"${SRUN[@]}" "$PYTHON" -u "$HERE/test.py" "$3" "$4" --launcher slurm "${@:5}"
