#!/usr/bin/env bash
# Train the policies of zoo/ and write their entries: scripts/make_zoo.sh [NAME ...], by default all of them.
#
# The flags are those of the card; a policy without a card is trained with seed 1.
# All are trained first, because an entry that changes a file of the checkout is named in the cards of later trainings.
# Environment: PYTHON (default: .venv/bin/python), LOGS, a folder for the runs (default: logs/zoo_trainings; a run that
# has ended is not trained again), ROBOT_HOURS of each joystick test (default: 15), LICENCE (default: BSD-3-Clause).
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
logs=${LOGS:-logs/zoo_trainings}
names=("$@")
if [ ${#names[@]} = 0 ]; then
  names=(go2_flat go2_flat_blind go2_flat_robust go2_rough anymal_c_flat anymal_c_rough g1_flat h1_flat solo12_flat go1_flat)
fi

task_of() {
  case $1 in
    solo12_flat) echo rsl_rl_zoo.robots.solo12.flat:Solo12Flat ;;
    go1_flat) echo rsl_rl_zoo.robots.go1.flat:Go1Flat ;;
    *) echo "$1" ;;
  esac
}

flags_of() {
  local flags
  flags=$(sed -n 's/^    "command": "rsl-rl train --task [^ ]* \(.*\)",$/\1/p' "zoo/$1/card.json" 2> /dev/null || true)
  echo "${flags:---seed 1}"
}

for name in "${names[@]}"; do
  if ! grep -qs '^done:' "$logs/$name.txt"; then
    mkdir -p "$logs"
    echo "training $name; its output is in $logs/$name.txt"
    read -ra flags <<< "$(flags_of "$name")"
    "$python" -m rsl_rl train --task "$(task_of "$name")" "${flags[@]}" --log_root "$logs" > "$logs/$name.txt" 2>&1
  fi
done
for name in "${names[@]}"; do
  run=$(sed -n 's/^done: //p' "$logs/$name.txt")
  "$python" -m rsl_rl zoo add "$run" --name "$name" --licence "${LICENCE:-BSD-3-Clause}" --replace \
    --robot_hours "${ROBOT_HOURS:-15}" --weakness "It was trained and tested in simulation only."
done
"$python" -m rsl_rl zoo list
