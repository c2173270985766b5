#!/usr/bin/env bash
# Set up the environment, generate the data, train and test a small model, and plot the results.
set -euo pipefail
cd "$(dirname "$0")/.."
start=$SECONDS
bash tools/setup_env.sh lite
PATH="$(cd "${VENV:-.venv}/bin" && pwd):$PATH"
PYTHON=python # from the environment
export PATH PYTHON
echo "installed after $((SECONDS - start)) s"

python tools/data/make_motion_dataset.py data/motion --preset easy
echo "data ready after $((SECONDS - start)) s"

procs=$(python -c "import torch; print(torch.cuda.device_count() or 2)")
# The schedule expects a total batch size of 16.
batch=$((procs < 16 ? 16 / procs : 1))
bash tools/dist_train.sh configs/vivit_fe_motion.py "$procs" --seed 0 \
  --cfg-options train_dataloader.batch_size="$batch"
echo "trained after $((SECONDS - start)) s"

work=work_dirs/vivit_fe_motion
bash tools/dist_test.sh configs/vivit_fe_motion.py "$(cat $work/last_checkpoint)" "$procs" \
  --work-dir "$work" --views 4x3 --dump "$work/scores.npz"
echo "tested after $((SECONDS - start)) s"

python tools/visualizations/training_curves.py "$work" --names vivit_fe_motion --out "$work/curves.png"
python tools/visualizations/confusion.py "$work/scores.npz" --out-dir "$work" \
  --classes data/motion/classes.txt
echo "plotted after $((SECONDS - start)) s"
