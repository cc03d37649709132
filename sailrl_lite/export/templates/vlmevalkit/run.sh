#!/bin/sh
# Evaluate the policy of settings.json. Arguments go to evaluate.py: names of benchmarks, --freely, --table.
#   OPENAI_API_KEY=... ./run.sh              one process
#   GPUS=8 ./run.sh MathVision OCRBench      one process a GPU, which share the questions
set -eu
cd "$(dirname "$0")"
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-PASSIVE}" GOMP_SPINCOUNT="${GOMP_SPINCOUNT:-0}"
if [ "${GPUS:-1}" -gt 1 ]; then
    exec torchrun --nproc-per-node="$GPUS" evaluate.py "$@"
fi
exec python evaluate.py "$@"
