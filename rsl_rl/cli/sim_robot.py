"""Simulate a robot behind UDP: `rsl-rl sim-robot logs/go2_flat/<run>/exported/policy.onnx`."""

from typing import Sequence

from rsl_rl.cli.sim_to_sim import run_deployed


def main(argv: Sequence[str]) -> int:
    return run_deployed("udp_robot.py", argv)
