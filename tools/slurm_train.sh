#!/usr/bin/env bash
# Train under Slurm, with one task per GPU.
#   [GPUS=8 GPUS_PER_NODE=8 CPUS_PER_TASK=16 SRUN_ARGS=""] \
#       tools/slurm_train.sh PARTITION JOB_NAME CONFIG [arguments of train.py]
set -euo pipefail

if [ $# -lt 3 ]; then
    echo "usage: $0 PARTITION JOB_NAME CONFIG [arguments of train.py]" >&2
    exit 2
fi
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/slurm_env.sh"
"${SRUN[@]}" "$PYTHON" -u "$HERE/train.py" "$3" --launcher slurm "${@:4}"
