# Sourced by dist_*.sh, with GPUS and HERE set: where the processes meet, and their threads.
PYTHON=${PYTHON:-python}
NNODES=${NNODES:-1}
NODE_RANK=${NODE_RANK:-0}
MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}
if [ -z "${PORT:-}" ]; then
    PORT=29500
    # Runs on one machine need different ports; several nodes need the same one.
    if [ "$NNODES" = 1 ]; then
        PORT=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
    fi
fi
RENDEZVOUS=(
    --nnodes="$NNODES" --node_rank="$NODE_RANK" --nproc_per_node="$GPUS"
    --master_addr="$MASTER_ADDR" --master_port="$PORT"
)

# torch.distributed.run would set one thread per process, also on CPUs. Of the cores of a process,
# half but at most 8 are left to its dataloader workers.
if [ -z "${OMP_NUM_THREADS:-}" ]; then
    CORES=$(($(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) / GPUS))
    CORES=$((CORES > 1 ? CORES : 1))
    export OMP_NUM_THREADS=$((CORES > 16 ? CORES - 8 : (CORES + 1) / 2))
fi
export MKL_NUM_THREADS=${MKL_NUM_THREADS:-$OMP_NUM_THREADS}
export PYTHONPATH="$HERE/..${PYTHONPATH:+:$PYTHONPATH}"
