#!/usr/bin/env bash
# Make videos that decode fast, under their old names: prepare_videos.sh FROM TO [PROCESSES]
# A short side of at most 256 pixels, a key frame in 16, a constant rate, upright, no sound. Videos
# that are there already are left, so the same command goes on. Needs FFmpeg 5 or newer.
set -euo pipefail
mkdir -p "$2"
TO=$(cd "$2" && pwd)
export TO
cd "$1"
find . -type f -print0 | xargs -0 -P "${3:-4}" -I{} bash -c '
    target=$TO/$1
    [ -e "$target" ] && exit
    mkdir -p "$(dirname "$target")"
    side="if(gt(iw\,ih)\,-2\,2*trunc(min(256\,iw)/2)):if(gt(iw\,ih)\,2*trunc(min(256\,ih)/2)\,-2)"
    ffmpeg -v error -nostdin -y -i "$1" -an -fps_mode cfr -vf "scale=$side" -pix_fmt yuv420p \
        -crf 20 -g 16 -tune fastdecode -f mp4 "$target.part" &&
        mv "$target.part" "$target" || echo "left out: $1" >&2
' _ {}
