#!/usr/bin/env bash
# Run the main steps of an installed package on generated videos: tools/check_install.sh [FOLDER]
# PYTHON is the interpreter with the package, for example of an environment with only the wheel.
set -euo pipefail
PYTHON=${PYTHON:-python}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$(mkdir -p "${1:-.}" && cd "${1:-.}" && pwd)"

[ ! -e start ] || { echo "$PWD has an earlier run; name another folder" >&2; exit 1; }

step() {
    echo "mmvidformer $*"
    "$PYTHON" -m mmvidformer "$@" >step.log 2>&1 || { tail -20 step.log >&2; exit 1; }
}

# The videos are drawn by the checkout, which is not what is tested.
generate() {
    PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$root" "$PYTHON" -m lab generate "$@" >step.log 2>&1 ||
        { tail -20 step.log >&2; exit 1; }
}

generate data/motion --train 16 --val 4 --test 4
step train vivit_fe_motion --work-dir start --cfg-options train_cfg.max_epochs=1
step test vivit_fe_motion start/epoch_1.pth --work-dir start --views 1x1
step demo vivit_fe_motion start/epoch_1.pth data/motion/test --json start/demo.json
generate data/camera --preset camera --train 0 --val 0 --test 9
step demo camera_motion data/camera/film.mp4 --json camera.json
generate data/mine --class-folders --classes 3 --train 15 --val 0 --test 0
step data list data/mine
step finetune --config vivit_fe_motion --data data/mine --weights start/epoch_1.pth --batch 4 \
    --epochs 1 --workers 0 --work-dir mine
step convert mine/epoch_1.pth converted.pth
if "$PYTHON" -c 'import onnx, onnxscript, onnxruntime' 2>/dev/null; then
    step export mine/finetune/config.py converted.pth --out mine/model.onnx
fi
step export mine/finetune/config.py converted.pth --out mine/model.pt2
