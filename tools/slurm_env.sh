# Sourced by slurm_*.sh with their arguments, and with HERE set. Builds the srun command.
PYTHON=${PYTHON:-python}
GPUS=${GPUS:-8}
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
# For the configs' 8 dataloader workers of training and of validation.
CPUS_PER_TASK=${CPUS_PER_TASK:-16}
GRES=${GRES-gpu:$GPUS_PER_NODE}
# Jobs that share a node need different ports.
export MASTER_PORT=${MASTER_PORT:-$((12000 + RANDOM % 20000))}
# Half of the cores, but at most 8, are reserved for the dataloader workers.
THREADS=$((CPUS_PER_TASK > 16 ? CPUS_PER_TASK - 8 : (CPUS_PER_TASK + 1) / 2))
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$THREADS}
export MKL_NUM_THREADS=${MKL_NUM_THREADS:-$OMP_NUM_THREADS}
export PYTHONPATH="$HERE/..${PYTHONPATH:+:$PYTHONPATH}"

SRUN=(
    srun -p "$1" --job-name="$2" ${GRES:+--gres="$GRES"}
    --ntasks="$GPUS" --ntasks-per-node="$GPUS_PER_NODE" --cpus-per-task="$CPUS_PER_TASK"
    --kill-on-bad-exit=1 ${SRUN_ARGS:-}
)
