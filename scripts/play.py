"""Watch and export a trained policy: `python scripts/play.py --task go2_flat`.

Writes a film (play.mp4), pictures of what the robot was asked for and what it did (play.png, play_joints.png) and the
policy for the robot (TorchScript and ONNX, with a description of its inputs and outputs) into the run's exported/
folder.

With --viewer or --keyboard one robot walks in real time instead, under your command, and nothing is written.

Each exported file is led through a walk of the policy (parity.json); where one acts otherwise, the exit code is 1.

With --postmortem it shows instead how a robot broke in training: physics repeats its last control steps.
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
    from rsl_rl.evaluation.export_parity import Exported
    from rsl_rl.evaluation.fault_plots import Moment
    from rsl_rl.runners.inference import InferencePolicy
    from rsl_rl.runners.loading import LoadedPolicy
    from rsl_rl.tasks.legged_robot import LeggedRobot

RUNNER = Path(__file__).resolve().parent.parent / "deploy" / "onnx_policy.py"
"""What a robot needs beside policy.onnx."""

PARITY_SECONDS = 20.0
"""Length of the walk that exported files are compared over [s]."""

PARITY_ROBOTS = 4


@dataclass(frozen=True)
class Flags:
    """What to show, apart from the config."""

    load_run: str = "-1"
    """Folder of the run; -1 for the newest."""
    checkpoint: Union[int, Literal["best"]] = -1
    """Iteration to play; -1 for the newest, best for what a training with --evaluate_interval found to be best."""
    num_envs: int = 4
    """Robots in the film."""
    seconds: float = 10.0
    """Length of the film [s]."""
    command: Optional[Tuple[float, float, float]] = None
    """Forward and left velocity [m/s] and yaw rate [rad/s] for all robots, with spaces or commas between;
    without it, the task's own commands."""
    video: bool = True
    """Make the film."""
    plot: bool = True
    """Make the pictures: velocities, base height, action rate and gait; joint positions and torques."""
    viewer: bool = False
    """Serve a web page with the robot in 3D, sliders for its command and its reward terms, until Ctrl-C."""
    port: int = 8080
    """Port of the web page, or the next free one."""
    keyboard: bool = False
    """Steer the robot with the arrow keys in MuJoCo's own window; needs a display."""
    postmortem: Optional[str] = None
    """What a training has written of a robot that broke: a file, or its name in the run's postmortem/ folder. Nothing
    else is played, and nothing exported."""


def main(args: Arguments) -> int:
    if args.flags.postmortem is not None:
        return show_postmortem(args)
    if args.flags.viewer or args.flags.keyboard:
        return walk_live(args)
    flags, cfg, run = args.flags, args.cfg, args.run
    assert run is not None  # parse() was told to find one
    with usage_errors():
        from rsl_rl.evaluation.playback import for_replay, replay, write_replay
        from rsl_rl.runners.loading import load_policy
        from rsl_rl.utils.seeding import require_device

        if flags.num_envs < 1 or flags.seconds <= 0:
            raise ValueError(f"--num_envs {flags.num_envs} and --seconds {flags.seconds}: give positive numbers")
        require_device("sim_device", cfg.sim_device)
        env = for_replay(cfg.env, flags.num_envs, flags.seconds, flags.command).build(cfg.sim_device, seed=cfg.seed)
        loaded = load_policy(cfg, env, run, flags.checkpoint)

    folder = run / "exported"
    print(f"playing {loaded.checkpoint}")
    same = export(loaded, cfg, folder)
    recording = replay(env, loaded.policy, flags.seconds)
    for line in write_replay(recording, env, folder, flags.video, flags.plot):
        print(line)
    return 0 if same else 1


def export(loaded: "LoadedPolicy", cfg: Any, folder: Path) -> bool:
    """Write the policy for the robot in every format there is, its description, and the runner that needs nothing else;
    return whether all of them act like the policy."""
    from rsl_rl.evaluation.evaluate import for_evaluation
    from rsl_rl.exporters import describe_module, policy_module

    runner, groups = loaded.runner, loaded.runner.alg.policy.actor_model.groups
    undisturbed = for_evaluation(cfg.env, PARITY_ROBOTS, PARITY_SECONDS)
    # Episodes short enough that robots which never fall are reset too.
    short = replace(undisturbed, episode_length=max(PARITY_SECONDS / 3, undisturbed.sim.control_dt))
    env = short.build(cfg.sim_device, seed=cfg.seed)
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
        print(f"no ONNX file: {error}; the extra 'export' brings what it needs")
    print(f"runner: {shutil.copy(RUNNER, folder)} (takes policy.onnx and what the robot senses; numpy and onnxruntime)")
    return check_parity(formats, loaded.policy, env, groups)


def check_parity(
    formats: Mapping[str, Path], policy: "InferencePolicy", env: "LeggedRobot", groups: Sequence[str]
) -> bool:
    """Lead the exported files through a walk of the policy, say how far each is from it and write parity.json beside
    them; return whether none is too far."""
    from rsl_rl.evaluation.export_parity import compare, verdict, write_parity
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
        print(f"parity: {verdict(name, results[name])}{note}")
    folder = formats["TorchScript"].parent
    print(f"parity: {write_parity(folder / 'parity.json', rollout, results)} ({rollout.num_resets} resets)")
    return all(result.mismatch is None for result in results.values())


def open_exported(path: Path, joint_names: Sequence[str]) -> "Tuple[Exported, str]":
    """Open a file as a robot would, and say what keeps robots from it; an ImportError names what is not installed."""
    from deploy.onnx_policy import Policy, open_onnx
    from rsl_rl.evaluation.export_parity import Exported, open_torchscript

    if path.suffix == ".onnx":
        description, network = open_onnx(path)
    else:
        description, network = json.loads(path.with_suffix(".json").read_text()), open_torchscript(path)
    try:
        Policy(description, network, joint_names)
    except ValueError as error:
        return Exported(network, description, None), f"; not for robots: {error}"
    return Exported(network, description, lambda: Policy(description, network, joint_names)), ""


def walk_live(args: Arguments) -> int:
    """Let one robot walk in real time under a person's command, until the window is closed or Ctrl-C comes."""
    flags, cfg, run = args.flags, args.cfg, args.run
    assert run is not None  # parse() was told to find one
    with usage_errors():
        from rsl_rl.evaluation.teleop import for_walking, open_page, open_window, walk
        from rsl_rl.runners.loading import load_policy
        from rsl_rl.utils.seeding import require_device

        if flags.viewer and flags.keyboard:
            raise ValueError("--viewer and --keyboard each show the robot; take one of them")
        refuse(flags, "--viewer and --keyboard show one robot until they are closed", "num_envs", "seconds")
        require_device("sim_device", cfg.sim_device)
        env = for_walking(cfg.env).build(cfg.sim_device, seed=cfg.seed)
        loaded = load_policy(cfg, env, run, flags.checkpoint)
        command = flags.command or (0.0, 0.0, 0.0)
        screen, usage = open_page(env, command, flags.port) if flags.viewer else open_window(env, command)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs deaf to it
    try:
        print(f"playing {loaded.checkpoint}")
        print(usage, flush=True)
        walk(env, loaded.policy, screen)
    except KeyboardInterrupt:
        print()
    finally:
        screen.close()
    return 0


def refuse(flags: Flags, mode: str, *names: str) -> None:
    """Raise a ValueError where flags are given that a mode, described by a clause, has no use for."""
    changed = [f"--{name}" for name in names if getattr(flags, name) != getattr(Flags, name)]
    if changed:
        raise ValueError(f"{mode}; leave out {', '.join(changed)}")


def show_postmortem(args: Arguments) -> int:
    """Repeat the last steps of a robot that broke in training and show them as a table, a picture and a film."""
    flags, cfg, run = args.flags, args.cfg, args.run
    assert run is not None  # parse() was told to find one
    with usage_errors():
        from rsl_rl.evaluation.fault_plots import headline, moments, write_postmortem
        from rsl_rl.evaluation.fault_replay import find_case, load_case, repeat, verdict
        from rsl_rl.utils.seeding import require_device

        shown_instead = ("checkpoint", "num_envs", "seconds", "command", "viewer", "keyboard")
        refuse(flags, "--postmortem shows what was recorded", *shown_instead)
        require_device("sim_device", cfg.sim_device)
        path = find_case(run, flags.postmortem)
        case = load_case(path, cfg.env)
        repetition = repeat(case, cfg.env, cfg.sim_device)

    print(f"repeating {path}")
    print(f"{headline(case)}, iteration {case.iteration}, step {case.step}")
    print_table(MOMENT_COLUMNS, [moment_cells(moment) for moment in moments(case, repetition)])
    print(verdict(case, repetition))
    if case.values:
        print_table(("term", "value"), [(name, shown_value(value)) for name, value in case.values.items()])
    with usage_errors():
        for line in write_postmortem(case, repetition, path, flags.video):
            print(line)
    return 0


MOMENT_COLUMNS = (
    "before the end [s]",
    "trunk height [m]",
    "trunk speed [m/s]",
    "fastest joint [rad/s]",
    "",
    "off target [rad]",
    "physics broke",
)


def moment_cells(moment: "Moment") -> Tuple[str, ...]:
    """Return a row below MOMENT_COLUMNS."""
    numbers = (moment.height, moment.speed, moment.joint_speed, moment.target_error)
    height, speed, joint_speed, target_error = ("-" if number is None else f"{number:.3g}" for number in numbers)
    return (f"{moment.time_left:.3f}", height, speed, joint_speed, moment.joint, target_error, moment.broke)


def shown_value(value: Any) -> str:
    """Return a number, or a list of numbers, as text."""
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


def with_spaces(argv: Sequence[str]) -> List[str]:
    """Write `--command 0.8,0,0` as `--command 0.8 0 0`."""
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
    sys.exit(main(parse(Flags, __doc__ or "", from_run=True, argv=with_spaces(sys.argv[1:]))))
