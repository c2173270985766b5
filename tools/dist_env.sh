# Sourced by dist_*.sh, with GPUS and HERE set. Sets the rendezvous and the number of threads.
PYTHON=${PYTHON:-python}
NNODES=${NNODES:-1}
NODE_RANK=${NODE_RANK:-0}
MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}
if [ -z "${PORT:-}" ]; then
    PORT=29500
    # Concurrent runs on one machine need different ports; the nodes of one run need the same port.
    if [ "$NNODES" = 1 ]; then
        PORT=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
    fi
fi
RENDEZVOUS=(
    --nnodes="$NNODES" --node_rank="$NODE_RANK" --nproc_per_node="$GPUS"
    --master_addr="$MASTER_ADDR" --master_port="$PORT"
)

# torch.distributed.run would set one thread per process, even on CPUs. Half of the cores of a
# process, but at most 8, are reserved for its dataloader workers.
if [ -z "${OMP_NUM_THREADS:-}" ]; then
    CORES=$(($(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) / GPUS))
    CORES=$((CORES > 1 ? CORES : 1))
    export OMP_NUM_THREADS=$((CORES > 16 ? CORES - 8 : (CORES + 1) / 2))
fi
export MKL_NUM_THREADS=${MKL_NUM_THREADS:-$OMP_NUM_THREADS}
export PYTHONPATH="$HERE/..${PYTHONPATH:+:$PYTHONPATH}"
