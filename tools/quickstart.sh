#!/usr/bin/env bash
# Set up the environment, train the camera motion model on 12,000 clips, an 80th of its own, test it
# and draw its answers. What the steps print is in work_dirs/camera_quickstart/quickstart.log.
set -euo pipefail
cd "$(dirname "$0")/.."
data=data/camera_quickstart work=work_dirs/camera_quickstart
log=$work/quickstart.log

main() {
    mkdir -p "$work"
    tee "$log" <<END
The quick start takes 7 GB of disk and, on two cores of an Intel Xeon with AVX2 alone, 4 minutes if
they are idle and up to 9 if they are busy. Its log: $log
END
    step "install into ${VENV:-.venv}" bash tools/setup_env.sh lite
    PATH="$(cd "${VENV:-.venv}/bin" && pwd):$PATH"
    step "draw 900 clips to test on" \
        python -m lab generate $data --preset camera --train 0 --val 0 --test 900
    step "train on 12,000 clips" train
    step "test, draw pictures" test_and_draw
    echo "$(sed -n 's/^top-1: //p' "$log") of 900 hard clips are right (chance: 11%)." \
        "The shipped model: 98%. In $work:"
    echo "  curves.png, confusion.png   how it learned, and what it confuses"
    echo "  film.mp4, timeline.png      its answers for a video with all nine motions"
    echo "All took $SECONDS s. For your video: ${VENV:-.venv}/bin/mmvidformer demo camera_motion VIDEO"
}

train() {
    local processes
    processes=$(python -c "import torch; print(torch.cuda.device_count() or 2)")
    # Muon, batches of 64 and fewer flips of a drawing learn soonest: 188 batches suffice.
    mmvidformer train camera_motion --procs "$processes" --work-dir $work --force --cfg-options \
        optim_wrapper.optimizer.type=lab.cpu_muon.CpuMuon optim_wrapper.optimizer.momentum=0.9 \
        optim_wrapper.optimizer.lr=0.002 param_scheduler.0.end=16 \
        train_dataloader.batch_size=$((processes < 64 ? 64 / processes : 1)) \
        train_dataloader.num_workers=0 train_dataloader.dataset.clips=12000 \
        train_dataloader.dataset.copies=4 train_dataloader.dataset.textures=300 \
        train_dataloader.dataset.curriculum="(1900,5600)" default_hooks.logger.interval=5
}

# The pictures of training are drawn while another core tests. Those of an earlier run are replaced.
test_and_draw() {
    local checkpoint pictures status=0
    export OMP_NUM_THREADS=1 # a core for each
    checkpoint=$(cat $work/last_checkpoint)
    {
        python -m lab plot curves $work --names camera_motion --out $work/curves.png --force
        mmvidformer demo camera_motion "$checkpoint" $data/film.mp4 --window 1 \
            --timeline $work/timeline.png --out $work/film.mp4 --force
    } >$work/pictures.log 2>&1 &
    pictures=$!
    # A view each, since the clips are as long as the model's.
    mmvidformer test camera_motion "$checkpoint" --views 1x1 --work-dir $work \
        --dump $work/scores.npz --force --cfg-options test_dataloader.dataset.ann_file=$data/test.txt \
        test_dataloader.dataset.data_prefix.video=$data \
        test_dataloader.num_workers=0 test_dataloader.batch_size=30
    mmvidformer plot confusion $work/scores.npz --out-dir $work --force
    wait $pictures || status=$?
    cat $work/pictures.log
    return $status
}

# Run a command with its output in the log, and show its progress and its seconds.
step() {
    local name=$1 start=$SECONDS status=0 shown=0
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
        show_progress "$name" $((SECONDS - start))
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

# Show how many of its batches a step has done: in a line that changes, or a line for each quarter.
show_progress() {
    local batches percent bar
    batches=$(tail -n 1 "$log" | grep -o '\[ *[0-9]*/[0-9]*\]' | tail -n 1 | tr -d '[ ]') || return 0
    percent=$((100 * ${batches%/*} / ${batches#*/}))
    if [ -t 1 ]; then
        printf -v bar '%*s' $((percent / 5)) ''
        printf '\r%-34s%4d s [%-20s] %3d%%' "$1" "$2" "${bar// /#}" $percent
    elif [ $((percent / 25)) != $shown ] && [ $percent -lt 100 ]; then
        shown=$((percent / 25))
        printf '%-34s%4d s %3d%%\n' "$1" "$2" $percent
    fi
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
