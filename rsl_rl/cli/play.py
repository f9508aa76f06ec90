"""Show and export a trained policy: `rsl-rl play --task go2_flat`.

Writes a video (play.mp4), plots of commands and motion (play.png, play_joints.png) and the policy for deployment
(TorchScript and ONNX, with a description of inputs and outputs) into the exported/ folder of the run. Each exported
file is compared with the policy over a rollout (parity.json); if one differs, the exit code is 1. A task that is no
legged robot is exported and compared too, without video and plots.

With --viewer or --keyboard you steer one robot in real time instead, and no file is written.

With --fault_dump it shows instead how a robot broke in training, by simulating its last control steps again.
"""

import signal
from dataclasses import dataclass
from typing import List, Literal, Optional, Sequence, Tuple, Union

from rsl_rl.cli.command_line import Arguments, parse, reject_changed_flags
from rsl_rl.cli.errors import usage_errors


@dataclass(frozen=True)
class Flags:
    """Flags of playing; all other flags are fields of the config."""

    load_run: str = "-1"
    """Folder of the run; -1 for the newest."""
    checkpoint: Union[int, Literal["best"]] = -1
    """Iteration to play; -1 for the newest, best for the best one of a training with --evaluate_interval."""
    num_envs: int = 4
    """Robots in the video."""
    seconds: float = 10.0
    """Length of the video [s]."""
    command: Optional[Tuple[float, float, float]] = None
    """Forward and left velocity [m/s] and yaw rate [rad/s] for all robots, separated by spaces or commas;
    default: random commands of the task."""
    terrain: str = ""
    """Type of ground for all robots, such as stairs_up; default: all types of the task."""
    level: int = -1
    """Level of the ground for all robots, from 0; default: all levels."""
    video: bool = True
    """Write the video."""
    plot: bool = True
    """Write the plots: velocities, base height, action rate and gait; joint positions and torques."""
    viewer: bool = False
    """Serve a web page with the robot in 3D, sliders for its command and its reward terms, until Ctrl-C."""
    port: int = 8080
    """Port of the web page, or the next free one."""
    keyboard: bool = False
    """Steer the robot with the arrow keys in MuJoCo's own window; needs a display."""
    log_root: str = ""
    """Folder of all experiments; default: logs/ of the checkout, or of the current folder without a checkout."""
    fault_dump: Optional[str] = None
    """Fault dump to show instead of the policy: a file, or its name in the run's postmortem/ folder."""


def main(argv: Sequence[str]) -> int:
    return play(parse(Flags, __doc__ or "", from_run=True, argv=split_commas(argv)))


def play(args: Arguments) -> int:
    if args.flags.fault_dump is not None:
        from rsl_rl.cli.fault_dump import show_fault_dump

        return show_fault_dump(args)
    if args.flags.viewer or args.flags.keyboard:
        return run_teleop(args)
    flags, cfg, run = args.flags, args.cfg, args.run
    assert run is not None  # parse() was told to find one
    with usage_errors():
        from rsl_rl.cli.export import export
        from rsl_rl.config.task import LeggedRobotConfig
        from rsl_rl.evaluation.playback import for_playback, run_playback, write_playback
        from rsl_rl.evaluation.terrain import on_terrain
        from rsl_rl.runners.loading import load_policy
        from rsl_rl.utils.files import require_writable
        from rsl_rl.utils.seeding import require_device

        if flags.num_envs < 1 or flags.seconds <= 0:
            raise ValueError(f"--num_envs {flags.num_envs} and --seconds {flags.seconds}: give positive numbers")
        require_device("sim_device", cfg.sim_device)
        has_robot = isinstance(cfg.env, LeggedRobotConfig)
        if has_robot:
            task = on_terrain(cfg.env, flags.terrain, flags.level)
            env_cfg = for_playback(task, flags.num_envs, flags.seconds, flags.command)
        else:
            no_robot = f"{type(cfg.env).__name__} is not the config of a legged robot, so there is nothing to show"
            reject_changed_flags(flags, no_robot, "num_envs", "seconds", "command", "terrain", "level")
            env_cfg = cfg.env
        env = env_cfg.build(cfg.sim_device, seed=cfg.seed)
        loaded = load_policy(cfg, env, run, flags.checkpoint)
        folder = run / "exported"
        require_writable(folder)

    print(f"playing {loaded.checkpoint}")
    equal = export(loaded, cfg, folder)
    if has_robot:
        recording = run_playback(env, loaded.policy, flags.seconds)
        for line in write_playback(recording, env, folder, flags.video, flags.plot):
            print(line)
    return 0 if equal else 1


def run_teleop(args: Arguments) -> int:
    """Run one robot in real time with the user's command, until the window is closed or Ctrl-C."""
    flags, cfg, run = args.flags, args.cfg, args.run
    assert run is not None  # parse() was told to find one
    with usage_errors():
        from rsl_rl.evaluation.teleop import for_teleop, open_native_viewer, open_web_viewer, teleoperate
        from rsl_rl.evaluation.terrain import on_terrain
        from rsl_rl.runners.loading import load_policy
        from rsl_rl.utils.seeding import require_device

        if flags.viewer and flags.keyboard:
            raise ValueError("--viewer and --keyboard each show the robot; use only one of them")
        reject_changed_flags(
            flags, "--viewer and --keyboard show one robot until they are closed", "num_envs", "seconds"
        )
        require_device("sim_device", cfg.sim_device)
        env = for_teleop(on_terrain(cfg.env, flags.terrain, flags.level)).build(cfg.sim_device, seed=cfg.seed)
        loaded = load_policy(cfg, env, run, flags.checkpoint)
        command = flags.command or (0.0, 0.0, 0.0)
        display, usage = open_web_viewer(env, command, flags.port) if flags.viewer else open_native_viewer(env, command)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it by default
    try:
        print(f"playing {loaded.checkpoint}")
        print(usage, flush=True)
        teleoperate(env, loaded.policy, display)
    except KeyboardInterrupt:
        print()
    finally:
        display.close()
    return 0


def split_commas(argv: Sequence[str]) -> List[str]:
    """Replace `--command 0.8,0,0` by `--command 0.8 0 0`."""
    words: List[str] = []
    for word in argv:
        flag, equals, value = word.partition("=")
        if flag == "--command" and equals:
            words.append(flag)
            word = value
        elif words[-1:] != ["--command"]:
            words.append(word)
            continue
        words += [part for part in word.split(",") if part.strip()] or [word]
    return words
