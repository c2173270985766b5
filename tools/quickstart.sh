#!/usr/bin/env bash
# Set up the environment, train the camera motion model on a fifteenth of its clips, test it, and
# show its answers.
set -euo pipefail
cd "$(dirname "$0")/.."
start=$SECONDS
bash tools/setup_env.sh lite
PATH="$(cd "${VENV:-.venv}/bin" && pwd):$PATH"
PYTHON=python # from the environment
export PATH PYTHON
echo "installed after $((SECONDS - start)) s"

data=data/camera_quickstart work=work_dirs/camera_quickstart
mmvidformer data generate $data --preset camera --train 0 --val 0 --test 900
echo "data ready after $((SECONDS - start)) s"

procs=$(python -c "import torch; print(torch.cuda.device_count() or 2)")
# The schedule expects a total batch size of 128.
batch=$((procs < 128 ? 128 / procs : 1))
bash tools/dist_train.sh camera_motion "$procs" --work-dir $work --cfg-options \
  train_dataloader.batch_size="$batch" train_dataloader.dataset.clips=64000 \
  train_dataloader.dataset.curriculum="(10000,40000)"
echo "trained after $((SECONDS - start)) s"

checkpoint=$(cat $work/last_checkpoint)
bash tools/dist_test.sh camera_motion "$checkpoint" "$procs" --work-dir $work \
  --dump $work/scores.npz --cfg-options test_dataloader.dataset.ann_file=$data/test.txt \
  test_dataloader.dataset.data_prefix.video=$data
echo "tested after $((SECONDS - start)) s"

mmvidformer plot curves $work --names camera_motion --out $work/curves.png
mmvidformer plot confusion $work/scores.npz --out-dir $work
mmvidformer demo camera_motion "$checkpoint" $data/film.mp4 --window 1 \
  --timeline $work/timeline.png --out $work/film.mp4
echo "plotted after $((SECONDS - start)) s"
