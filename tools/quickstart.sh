#!/usr/bin/env bash
# Set up the environment, label a clip with the model of the package, fine-tune it on 20 generated
# clips and test that on 40 others. What the steps print is in work_dirs/quickstart/quickstart.log.
set -euo pipefail
cd "$(dirname "$0")/.."
data=data/quickstart work=work_dirs/quickstart
log=$work/quickstart.log
export OMP_NUM_THREADS=1 # the model is small: a thread waits for another longer than it computes

main() {
    mkdir -p "$work"
    tee "$log" <<END
The quick start takes 7 GB of disk and, on two cores, 2 minutes if they are idle and up to 9 if
they are busy. Its log: $log
END
    step "install into ${VENV:-.venv}" bash tools/setup_env.sh lite,web
    PATH="$(cd "${VENV:-.venv}/bin" && pwd):$PATH"
    step "label the bundled clip" \
        mmvidformer demo camera_motion --csv $work/segments.csv --out $work/camera.mp4 --force
    step "draw clips of moving squares" draw
    step "fine-tune on 20 of them" mmvidformer finetune --config camera_motion --data $data \
        --method lora --workers 0 --work-dir $work/moves --force
    local model
    model="$work/moves/finetune/config.py $(ls -t $work/moves/best_*.pth | head -n 1)"
    step "test on 40 others, draw pictures" test_and_draw $model
    echo "The camera of the bundled clip: $(tail -n +2 $work/segments.csv | cut -d, -f5 | paste -sd ,)."
    echo "Which way a square moves: $(sed -n 's/^top-1: //p' "$log" | tail -n 1) of 40 test clips are right;"
    echo "  $(grep '^validation: ' "$log")."
    echo "In $work: camera.mp4, square.mp4 (answers drawn into them), curves.png (how it learned)."
    echo "All took $SECONDS s. For videos of yours, open its page: ${VENV:-.venv}/bin/mmvidformer web" \
        "--config ${model/ / --checkpoint }"
}

draw() {
    python -m lab generate $data/train --class-folders --train 20 --val 0 --test 0
    python -m lab generate $data/val --class-folders --train 0 --val 40 --test 0
    python -m lab generate $data/test --class-folders --train 0 --val 0 --test 40
}

test_and_draw() {
    mmvidformer test "$@" --work-dir $work --force
    mmvidformer demo "$@" "$(ls $data/test/left/*.mp4 | head -n 1)" --out $work/square.mp4 --force
    python -m lab plot curves $work/moves --names lora --out $work/curves.png --force
}

# Run a command with its output in the log, and show its seconds.
step() {
    local name=$1 start=$SECONDS status=0
    shift
    printf '\n== %s\n' "$name" >>"$log"
    # An interrupt waits until the group has its number, or the step would go on alone.
    trap early=yes INT TERM HUP
    set -m # gives it a process group of its own
    (set -e; "$@") </dev/null >>"$log" 2>&1 &
    group=$!
    set +m
    trap interrupted INT TERM HUP
    [ -z "$early" ] || interrupted
    while kill -0 $group 2>/dev/null; do
        [ ! -t 1 ] || printf '\r%-34s%4d s' "$name" $((SECONDS - start))
        sleep 0.5
    done
    wait $group || status=$?
    if [ $status != 0 ]; then
        end_group
        tail -n 15 "$log" >&2
        echo "failed after $((SECONDS - start)) s: $name; the whole log: $log" >&2
        exit $status
    fi
    group=
    printf "${line_start}%-34s%4d s${line_rest}\n" "$name" $((SECONDS - start))
}

# End what the step has started. A second TERM ends processes of training that hang.
end_group() {
    local signal
    trap '' INT TERM HUP
    for signal in TERM TERM KILL; do
        kill -$signal -- -$group 2>/dev/null || return 0
        for _ in {1..100}; do
            kill -0 -- -$group 2>/dev/null || return 0
            sleep 0.1
        done
    done
}

interrupted() {
    echo
    [ -z "$group" ] || end_group
    echo "stopped after $SECONDS s; the log: $log" >&2
    exit 130
}

group= # the process group of the step that runs
early= # whether an interrupt came while it started
line_start='' line_rest=''
if [ -t 1 ]; then
    line_start='\r' line_rest='\033[K'
fi
trap interrupted INT TERM HUP
main
