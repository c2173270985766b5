# Read by dist_*.sh, with GPUS and HERE set: where the processes meet, and their threads.
PYTHON=${PYTHON:-python}
NNODES=${NNODES:-1}
NODE_RANK=${NODE_RANK:-0}
MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}
if [ -z "${PORT:-}" ]; then
    PORT=29500
    # Two runs on one machine must not meet; nodes must agree, so there the number is fixed.
    if [ "$NNODES" = 1 ]; then
        PORT=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
    fi
fi
RENDEZVOUS=(
    --nnodes="$NNODES" --node_rank="$NODE_RANK" --nproc_per_node="$GPUS"
    --master_addr="$MASTER_ADDR" --master_port="$PORT"
)

# torch.distributed.run would give each process one thread, also where the CPU computes.
if [ -z "${OMP_NUM_THREADS:-}" ]; then
    CORES=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
    export OMP_NUM_THREADS=$((CORES > GPUS ? CORES / GPUS : 1))
fi
export MKL_NUM_THREADS=${MKL_NUM_THREADS:-$OMP_NUM_THREADS}
export PYTHONPATH="$HERE/..${PYTHONPATH:+:$PYTHONPATH}"
