# Write the runs of this folder with the code of commit b1e62f0, in a checkout of it: bash make.sh CHECKOUT
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
cd "$1"
export PYTHONPATH=$PWD OMP_NUM_THREADS=1
SMALL="--num_envs 4 --max_iterations 2 --save_interval 2 --logger none --runner.num_steps_per_env 4
  --algorithm.num_mini_batches 1 --algorithm.num_learning_epochs 1"
MLP="--policy.actor_hidden_dims 8 --policy.critic_hidden_dims 8"
python scripts/train.py --task toy --run_name old $SMALL $MLP
python scripts/train.py --task recall --run_name old $SMALL --policy.rnn_hidden_size 8 $MLP
python scripts/train.py --task go2_flat --run_name old $SMALL $MLP --sim mujoco --sim_device cpu --rl_device cpu
for task in toy recall go2_flat; do
  mkdir -p "$HERE/$task/old"
  cp logs/$task/*_old/config.yaml logs/$task/*_old/model_2.pt "$HERE/$task/old/"
done
python - "$HERE/go2_flat/old" <<'END'
import sys
from pathlib import Path
import torch
from configs.go2_flat import Go2Flat
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.utils.config_io import from_dict, read_yaml
run = Path(sys.argv[1])
cfg = from_dict(Go2Flat, read_yaml(run / "config.yaml"))
runner = OnPolicyRunner(cfg.env.build(), cfg, run / "fault")
step, count = runner.env.step, iter(range(100))
def broken_step(actions):
    if next(count) == 6:
        velocity = torch.tensor([200.0, 0.0, 0.0]).repeat(4, 1)
        runner.env.sim.set_root_velocity(torch.arange(4) == 1, velocity, torch.zeros(4, 3))
    return step(actions)
runner.env.step = broken_step
runner.learn(2)
END
mkdir -p "$HERE/go2_flat/old/postmortem"
mv "$HERE/go2_flat/old/fault/postmortem/"state_*.pt "$HERE/go2_flat/old/postmortem/state_2.pt"
rm -r "$HERE/go2_flat/old/fault"
