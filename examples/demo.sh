#!/bin/sh
# A crowd in which two workers of five only guess: who are they, and what are the answers?
# Run from the repository's root by `make demo`; everything it writes is in demo-run/, made anew each time.
set -eu

show() {
    printf '\n$ %s\n\n' "$*"
    "$@"
}

rm -rf demo-run
show crowdbeam simulate --output demo-run/crowd \
    --tasks 20000 --workers 300 --labels-per-task 5 --classes 4 --skills hammer-spammer:0.4 --activity 0.5
show crowdbeam aggregate demo-run/crowd/labels --output demo-run/result
show crowdbeam evaluate demo-run/result --truth demo-run/crowd/truth.csv --skills demo-run/crowd/skills.csv
printf '\nThe answers are in demo-run/result/scores, the workers in demo-run/result/skills (Parquet).\n'
