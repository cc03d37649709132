#!/usr/bin/env bash
# @NODES@ machine(s) of @GPUS@ GPUs. Run it on each:  HEAD=address-of-the-first RANK=0  bash launch.sh
# RANK counts the machines from 0. More overrides of verl may follow as arguments on the first one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
here=$PWD nodes=@NODES@ gpus=@GPUS@ all=@ALL@ port=${PORT:-6379}
: "${RANK:=0}" "${HEAD:=127.0.0.1}"
if [ "$nodes" -gt 1 ] && [ "$HEAD" = 127.0.0.1 ]; then
  echo "set HEAD to the address of the first machine, and RANK" >&2; exit 2
fi
# Now, and not after the weights are loaded: is the package here, and does the judge have what it needs?
# Ray's workers inherit this shell's environment, so the key must be set on every machine.
python -c 'import sys; from sailrl_lite.judges.specs import get_judge; get_judge(sys.argv[1])' @JUDGE@

if [ "$RANK" -ne 0 ]; then
  exec ray start --address "$HEAD:$port" --num-gpus "$gpus" --block
fi
rm -f stopped.txt
export TENSORBOARD_DIR=$here/tensorboard
ray start --head --node-ip-address "$HEAD" --port "$port" --num-gpus "$gpus"
trap 'ray stop' EXIT
python - "$all" <<'PYTHON'
import sys, time, ray
ray.init(address="auto", log_to_driver=False)
while ray.cluster_resources().get("GPU", 0) < int(sys.argv[1]):
    print("waiting for the other machines ...", flush=True)
    time.sleep(10)
PYTHON

mapfile -t overrides < overrides.txt
quoted=${here//\'/\\\'}  # as Hydra takes an apostrophe
python -m verl.trainer.main_ppo "${overrides[@]}" \
  "data.train_files='$quoted/train.parquet'" "data.val_files='$quoted/val.parquet'" \
  "reward.custom_reward_function.path='$quoted/reward.py'" \
  "trainer.default_local_dir='$quoted/checkpoints'" "$@" &
verl=$!
# verl replaces what fails and goes on; the reward says in stopped.txt that it must not.
while kill -0 "$verl" 2>/dev/null; do
  if [ -e stopped.txt ]; then
    echo "The run ends: $(cat stopped.txt)" >&2
    echo "Mend that and start again: it goes on from the last checkpoint." >&2
    kill -TERM "$verl"; sleep "${GRACE:-30}"; kill -KILL "$verl" 2>/dev/null || true
    exit 3
  fi
  sleep "${POLL:-10}"
done
wait "$verl"
