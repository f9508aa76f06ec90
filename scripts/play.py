"""Show and export a trained policy: `python scripts/play.py --task go2_flat`.

Writes a video (play.mp4), plots of commands and motion (play.png, play_joints.png) and the policy for deployment
(TorchScript and ONNX, with a description of inputs and outputs) into the exported/ folder of the run. Each exported
file is compared with the policy over a rollout (parity.json); if one differs, the exit code is 1.

With --viewer or --keyboard you steer one robot in real time instead, and no file is written.

With --fault_dump it shows instead how a robot broke in training, by simulating its last control steps again.
"""

import json
import shutil
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, List, Literal, Mapping, Optional, Sequence, Tuple, Union

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.command_line import Arguments, parse, usage_errors

if TYPE_CHECKING:
    from rsl_rl.evaluation.export_parity import ExportedPolicy
    from rsl_rl.evaluation.fault_plots import StepSummary
    from rsl_rl.runners.inference import InferencePolicy
    from rsl_rl.runners.loading import LoadedPolicy
    from rsl_rl.tasks.legged_robot import LeggedRobot

RUNNER = Path(__file__).resolve().parent.parent / "deploy" / "onnx_policy.py"
"""File that runs policy.onnx on a robot."""

PARITY_SECONDS = 20.0
"""Length of the rollout for the comparison of exported files [s]."""

PARITY_ROBOTS = 4


@dataclass(frozen=True)
class Flags:
    """Flags of play.py; all other flags are fields of the config."""

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
    fault_dump: Optional[str] = None
    """Fault dump to show instead of the policy: a file, or its name in the run's postmortem/ folder."""


def main(args: Arguments) -> int:
    if args.flags.fault_dump is not None:
        return show_fault_dump(args)
    if args.flags.viewer or args.flags.keyboard:
        return run_teleop(args)
    flags, cfg, run = args.flags, args.cfg, args.run
    assert run is not None  # parse() was told to find one
    with usage_errors():
        from rsl_rl.evaluation.playback import for_playback, run_playback, write_playback
        from rsl_rl.runners.loading import load_policy
        from rsl_rl.utils.files import require_writable
        from rsl_rl.utils.seeding import require_device

        if flags.num_envs < 1 or flags.seconds <= 0:
            raise ValueError(f"--num_envs {flags.num_envs} and --seconds {flags.seconds}: give positive numbers")
        require_device("sim_device", cfg.sim_device)
        env = for_playback(cfg.env, flags.num_envs, flags.seconds, flags.command).build(cfg.sim_device, seed=cfg.seed)
        loaded = load_policy(cfg, env, run, flags.checkpoint)
        folder = run / "exported"
        require_writable(folder)

    print(f"playing {loaded.checkpoint}")
    equal = export(loaded, cfg, folder)
    recording = run_playback(env, loaded.policy, flags.seconds)
    for line in write_playback(recording, env, folder, flags.video, flags.plot):
        print(line)
    return 0 if equal else 1


def export(loaded: "LoadedPolicy", cfg: Any, folder: Path) -> bool:
    """Write the policy in all formats, its description, and the file that runs it on a robot; return whether all
    formats agree with the policy."""
    from rsl_rl.evaluation.evaluate import for_evaluation
    from rsl_rl.exporters import describe_module, policy_module

    runner, groups = loaded.runner, loaded.runner.alg.policy.actor_model.groups
    env_cfg = for_evaluation(cfg.env, PARITY_ROBOTS, PARITY_SECONDS)
    # Short episodes, so that robots that do not fall are reset too.
    env_cfg = replace(env_cfg, episode_length=max(PARITY_SECONDS / 3, env_cfg.sim.control_dt))
    env = env_cfg.build(cfg.sim_device, seed=cfg.seed)
    formats = {"TorchScript": runner.export_policy_to_jit(folder)}
    print(f"policy: {formats['TorchScript']} (TorchScript)")
    module = describe_module(policy_module(runner.alg.inference_policy))
    content = {"format": 1, "task": cfg.task, **module, **env.describe_interface(groups)}
    description = folder / "policy.json"
    description.write_text(json.dumps(content, indent=2) + "\n")
    print(f"policy: {description} (inputs, outputs, joint order, scales, gains)")
    try:
        formats["ONNX"] = runner.export_policy_to_onnx(folder, metadata=content)
        print(f"policy: {formats['ONNX']} (ONNX)")
    except ImportError as error:
        print(f"no ONNX file: {error}; install the extra: pip install 'rsl-rl-lib[export]'")
    print(f"runner: {shutil.copy(RUNNER, folder)} (runs policy.onnx on a robot; needs numpy and onnxruntime)")
    return check_parity(formats, loaded.policy, env, groups)


def check_parity(
    formats: Mapping[str, Path], policy: "InferencePolicy", env: "LeggedRobot", groups: Sequence[str]
) -> bool:
    """Compare the exported files with the policy over a rollout, print the differences and write parity.json; return
    whether all are within the tolerance."""
    from rsl_rl.evaluation.export_parity import compare, describe_parity, write_parity
    from rsl_rl.evaluation.parity_rollout import record_rollout

    rollout = record_rollout(env, policy, groups, round(PARITY_SECONDS / env.cfg.sim.control_dt))
    results = {}
    for name, path in formats.items():
        try:
            exported, note = open_exported(path, rollout.joint_names)
        except ImportError as error:
            print(f"parity: {name} is not checked: {error}")
            continue
        results[name] = compare(rollout, exported)
        print(f"parity: {describe_parity(name, results[name])}{note}")
    folder = formats["TorchScript"].parent
    print(f"parity: {write_parity(folder / 'parity.json', rollout, results)} ({rollout.num_resets} resets)")
    return all(result.mismatch is None for result in results.values())


def open_exported(path: Path, joint_names: Sequence[str]) -> "Tuple[ExportedPolicy, str]":
    """Load an exported file; also return a note if no robot can run it. A missing package is an ImportError."""
    from deploy.onnx_policy import Policy, open_onnx
    from rsl_rl.evaluation.export_parity import ExportedPolicy, open_torchscript

    if path.suffix == ".onnx":
        description, network = open_onnx(path)
    else:
        description, network = json.loads(path.with_suffix(".json").read_text()), open_torchscript(path)
    try:
        Policy(description, network, joint_names)
    except ValueError as error:
        return ExportedPolicy(network, description, None), f"; not for robots: {error}"
    return ExportedPolicy(network, description, lambda: Policy(description, network, joint_names)), ""


def run_teleop(args: Arguments) -> int:
    """Run one robot in real time with the user's command, until the window is closed or Ctrl-C."""
    flags, cfg, run = args.flags, args.cfg, args.run
    assert run is not None  # parse() was told to find one
    with usage_errors():
        from rsl_rl.evaluation.teleop import for_teleop, open_native_viewer, open_web_viewer, teleoperate
        from rsl_rl.runners.loading import load_policy
        from rsl_rl.utils.seeding import require_device

        if flags.viewer and flags.keyboard:
            raise ValueError("--viewer and --keyboard each show the robot; use only one of them")
        reject_flags(flags, "--viewer and --keyboard show one robot until they are closed", "num_envs", "seconds")
        require_device("sim_device", cfg.sim_device)
        env = for_teleop(cfg.env).build(cfg.sim_device, seed=cfg.seed)
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


def reject_flags(flags: Flags, mode: str, *names: str) -> None:
    """Raise a ValueError for flags that have no effect in a mode; ``mode`` starts the message."""
    changed = [f"--{name}" for name in names if getattr(flags, name) != getattr(Flags, name)]
    if changed:
        raise ValueError(f"{mode}; leave out {', '.join(changed)}")


def show_fault_dump(args: Arguments) -> int:
    """Simulate the last steps of a robot that broke in training again; show a table, a plot and a video."""
    flags, cfg, run = args.flags, args.cfg, args.run
    assert run is not None  # parse() was told to find one
    with usage_errors():
        from rsl_rl.evaluation.fault_plots import headline, step_summaries, write_fault_report
        from rsl_rl.evaluation.fault_replay import describe_replay, find_fault_dump, load_fault_dump, replay_fault
        from rsl_rl.utils.seeding import require_device

        unused = ("checkpoint", "num_envs", "seconds", "command", "viewer", "keyboard")
        reject_flags(flags, "--fault_dump shows a recorded fault", *unused)
        require_device("sim_device", cfg.sim_device)
        path = find_fault_dump(run, flags.fault_dump)
        dump = load_fault_dump(path, cfg.env)
        replay = replay_fault(dump, cfg.env, cfg.sim_device)

    print(f"replaying {path}")
    print(f"{headline(dump)}, iteration {dump.iteration}, step {dump.step}")
    print_table(STEP_COLUMNS, [step_cells(moment) for moment in step_summaries(dump, replay)])
    print(describe_replay(dump, replay))
    if dump.values:
        print_table(("term", "value"), [(name, shown_value(value)) for name, value in dump.values.items()])
    with usage_errors():
        for line in write_fault_report(dump, replay, path, flags.video):
            print(line)
    return 0


STEP_COLUMNS = (
    "time left [s]",
    "trunk height [m]",
    "trunk speed [m/s]",
    "fastest joint [rad/s]",
    "",
    "target error [rad]",
    "physics",
)


def step_cells(moment: "StepSummary") -> Tuple[str, ...]:
    """Return a row of the table with STEP_COLUMNS."""
    numbers = (moment.height, moment.speed, moment.joint_speed, moment.target_error)
    height, speed, joint_speed, target_error = ("-" if number is None else f"{number:.3g}" for number in numbers)
    return (f"{moment.time_left:.3f}", height, speed, joint_speed, moment.joint, target_error, moment.broke)


def shown_value(value: Any) -> str:
    """Format a number or a list of numbers."""
    if isinstance(value, list):
        return " ".join(map(shown_value, value))
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column in columns:
        table.add_column(Text(column), justify="right" if column.endswith("]") else "left")  # no markup
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


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


if __name__ == "__main__":
    sys.exit(main(parse(Flags, __doc__ or "", from_run=True, argv=split_commas(sys.argv[1:]))))
