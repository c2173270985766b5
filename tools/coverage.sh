#!/usr/bin/env bash
# Run the tests, and print the share of lines they reach in each room and the lines they do not.
set -euo pipefail
cd "$(dirname "$0")/.."
bash tools/run_tests.sh --cov --cov-report= "$@"
rm -f .coverage.?* # of processes that tests killed
REPORT=("${VENV:-.venv}/bin/python" -m coverage report)
for file in mmvidformer/*/__init__.py mmvidformer/__init__.py; do
    room=${file%/*}
    printf '%s %s%%\n' "$room" "$("${REPORT[@]}" --format=total --include="$room/*")"
done
"${REPORT[@]}" --skip-covered --show-missing --include="mmvidformer/*"
