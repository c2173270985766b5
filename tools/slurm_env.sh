# Read by slurm_*.sh, with their arguments and HERE set: the command that starts the tasks.
PYTHON=${PYTHON:-python}
GPUS=${GPUS:-8}
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
CPUS_PER_TASK=${CPUS_PER_TASK:-5}
GRES=${GRES-gpu:$GPUS_PER_NODE}
# Two jobs that share a node must not meet.
export MASTER_PORT=${MASTER_PORT:-$((12000 + RANDOM % 20000))}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$CPUS_PER_TASK}
export MKL_NUM_THREADS=${MKL_NUM_THREADS:-$OMP_NUM_THREADS}
export PYTHONPATH="$HERE/..${PYTHONPATH:+:$PYTHONPATH}"

SRUN=(
    srun -p "$1" --job-name="$2" ${GRES:+--gres="$GRES"}
    --ntasks="$GPUS" --ntasks-per-node="$GPUS_PER_NODE" --cpus-per-task="$CPUS_PER_TASK"
    --kill-on-bad-exit=1 ${SRUN_ARGS:-}
)
