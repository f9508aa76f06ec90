"""Show and export a trained policy: `rsl-rl play --task go2_flat`.

Writes a video (play.mp4), plots of commands and motion (play.png, play_joints.png) and the policy for deployment
(TorchScript and ONNX, with a description of inputs and outputs) into the exported/ folder of the run. Each exported
file is compared with the policy over a rollout (parity.json); if one differs, the exit code is 1. A task without a
legged robot is exported and compared too, without video and plots.

With --viewer or --keyboard you steer robots in real time instead, and no file is written; with --follow too, they
always have the newest policy of a training that is running.

With --page it writes a web page in which the policy walks, one file for any browser, in place of video and plots.

With --fault_dump it shows instead how a robot broke in training, by simulating its last control steps again.
"""

import inspect
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, List, Literal, Mapping, Optional, Sequence, Tuple

from rsl_rl.cli.command_line import Arguments, RunFlags, parse, reject_changed_flags
from rsl_rl.cli.errors import usage_errors
from rsl_rl.cli.policy_flags import names_policy, reject_policy_flags, with_task_of_robot
from rsl_rl.cli.tables import print_table
from rsl_rl.cli.viewer import show_viewer
from rsl_rl.utils.files import expand_user

if TYPE_CHECKING:
    from rsl_rl.cli.policy_files import PolicyFile
    from rsl_rl.evaluation.fault_replay import StepSummary
    from rsl_rl.runners.loading import LoadedPolicy
    from rsl_rl.tasks.legged_robot import LeggedRobot


@dataclass(frozen=True)
class Flags(RunFlags):
    """Flags of playing; all other flags are fields of the config."""

    num_envs: Optional[int] = None
    """Robots in the video, 4 by default, or in the viewer, 1 by default."""
    seconds: Optional[float] = None
    """Length of the video [s]; default: 10, or with --commands until 3 s after the last command."""
    command: Optional[Tuple[float, float, float]] = None
    """Forward and left velocity [m/s] and yaw rate [rad/s] for all robots, separated by spaces or commas;
    default: random commands of the task."""
    commands: str = ""
    """File with a line "time vx vy yaw_rate" for each command, for all robots; a command holds until the next one, and
    changes are abrupt."""
    terrain: str = ""
    """Type of ground for all robots, such as stairs_up; default: all types of the task."""
    level: int = -1
    """Level of the ground for all robots, from 0; default: all levels."""
    video: bool = True
    """Write the video."""
    plot: bool = True
    """Write the plots: velocities, base height, action rate and gait; joint positions and torques."""
    export: Literal["none", "c", "c-int8"] = "none"
    """Further format of the policy besides TorchScript and ONNX: c, a header and a source in C99; c-int8, with rounded
    weights of 8 bits."""
    viewer: bool = False
    """Serve a web page with robots in 3D, until Ctrl-C: commands, pushes, forces, choice of checkpoint and ground."""
    follow: bool = False
    """In the viewer, load each new checkpoint of the run, such as of a training that is running."""
    port: int = 8080
    """Port of the web page, or the next free one."""
    keyboard: bool = False
    """Steer the robot with the arrow keys in MuJoCo's own window; needs a display."""
    page: str = ""
    """Web page to write, such as walk.html, in which the policy walks and is driven: without server and network."""
    page_add: bool = False
    """Add the policy to an existing --page, or replace the one of this task."""
    licence: str = ""
    """Licence of the policy, shown in the --page."""
    fault_dump: Optional[str] = None
    """Fault dump to show instead of the policy: a file, or its name in the run's postmortem/ folder."""
    policy: str = ""
    """File of a policy, ONNX or TorchScript of any program, to show through its contract instead of a run's policy."""
    folder: str = ""
    """Folder of the video and plots of --policy; default: that of the policy."""
    contract: str = ""
    """Contract of --policy, see rsl-rl contract; default: in its file, or policy.json beside it."""
    set: Tuple[str, ...] = ()
    """FIELD=VALUE of the contract, for what it does not say."""
    robot: str = ""
    """Robot of --policy: go2 is --task go2_flat; or its URDF or MJCF file."""


WRITTEN = ("export", "page", "page_add", "licence")
"""Flags of what is written of a run's policy besides the video."""

DEFAULT_ROBOTS = 4
"""Robots in a video."""

STEP_COLUMNS = (
    "time left [s]",
    "trunk height [m]",
    "trunk speed [m/s]",
    "fastest joint [rad/s]",
    "",
    "target error [rad]",
    "physics",
)
"""Columns of the table of a fault dump."""


def main(argv: Sequence[str]) -> int:
    argv = split_commas(argv)
    if names_policy(argv):
        return play_policy(parse(Flags, __doc__ or "", from_run=False, argv=with_task_of_robot(argv)))
    return play(parse(Flags, __doc__ or "", from_run=True, argv=argv))


def play_policy(args: Arguments, facts: Optional[Mapping[str, str]] = None) -> int:
    """Show a policy of any program through its contract: `--policy FILE --robot go2`.

    ``facts`` are the lines of its card in a --page.
    """
    flags, cfg = args.flags, args.cfg
    with usage_errors():
        from rsl_rl.cli.policy_files import load_policy_files

        unused = ("load_run", "checkpoint", "follow", "fault_dump", "export", "keyboard")
        reject_changed_flags(flags, "--policy is shown without a run", *unused)
        if not flags.page:
            reject_changed_flags(flags, "the flag belongs to --page", "page_add", "licence")
        contracts = [flags.contract] if flags.contract else []
        groups = cfg.policy.actor_groups
        (file,) = load_policy_files([flags.policy], contracts, flags.set, cfg.env, groups, flags.robot).values()
    if flags.viewer:
        with usage_errors():
            reject_changed_flags(flags, "--viewer writes no file", *WRITTEN, "folder")
        return show_viewer(args._replace(cfg=replace(cfg, env=file.task)), (file.path, file.acting))
    if flags.page:
        with usage_errors():
            print(write_page_of_file(file, args, facts or {"Task": cfg.task, "Licence": flags.licence or "not stated"}))
        return 0
    return film_policy(file, args)


def film_policy(file: "PolicyFile", args: Arguments) -> int:
    """Film a policy, and plot its motion."""
    flags, cfg = args.flags, args.cfg
    with usage_errors():
        from rsl_rl.evaluation.command_script import read_commands
        from rsl_rl.evaluation.conditions import on_terrain
        from rsl_rl.evaluation.playback import check_command, for_playback, run_playback, start_video, write_playback
        from rsl_rl.utils.files import require_writable

        script, seconds, num_envs = length_of(flags, read_commands)
        task = on_terrain(file.task, flags.terrain, flags.level)
        note = check_command(task.commands, flags.command)
        env = for_playback(task, num_envs, seconds, flags.command).build(cfg.sim_device, seed=cfg.seed)
        folder = expand_user(flags.folder, "--folder") if flags.folder else file.path.parent
        require_writable(folder)
    print(f"playing {file.path}")
    if note:
        print(note)
    recording = run_playback(env, file.acting, seconds, script)
    with usage_errors(), start_video(recording, env, folder, flags.video) as video:
        for line in write_playback(recording, env, folder, video, flags.plot):
            print(line)
    return 0


def write_page_of_file(file: "PolicyFile", args: Arguments, facts: Mapping[str, str]) -> str:
    """Write a web page of an exported policy in its own task; return a line on it."""
    from rsl_rl.contracts.contract import contract_json
    from rsl_rl.evaluation.conditions import on_terrain
    from rsl_rl.evaluation.page_robot import gather_robot
    from rsl_rl.evaluation.playback import for_playback
    from rsl_rl.viz.page import write_page

    flags, cfg = args.flags, args.cfg
    if file.path.suffix != ".onnx" or not file.path.with_suffix(".json").is_file() or file.contract.task != cfg.task:
        raise ValueError(
            f"--page needs an export of the task {cfg.task}, policy.onnx beside policy.json; {file.path} is of the "
            f"task '{file.contract.task}'"
        )
    env = for_playback(on_terrain(cfg.env, flags.terrain, flags.level), 1, 10.0, None)
    built, description = env.build(cfg.sim_device, seed=cfg.seed), contract_json(file.contract)
    robot = gather_robot(built, cfg.env, file.path.read_bytes(), description, cfg.policy.actor_groups, facts)
    path = expand_user(flags.page, "--page")
    size = write_page(path, robot, flags.page_add)
    return f"page: {path} ({size / 1e6:.1f} MB; open it in a browser)"


def length_of(flags: Any, read_commands: Callable[[Path], List[Any]]) -> Tuple[List[Any], float, int]:
    """Return the script of commands, the length [s] and the number of robots of a video."""
    if flags.commands and flags.command is not None:
        raise ValueError("--command and --commands each give the command; use only one of them")
    script = read_commands(expand_user(flags.commands, "--commands")) if flags.commands else []
    seconds = flags.seconds if flags.seconds is not None else script[-1].time + 3.0 if script else 10.0
    num_envs = DEFAULT_ROBOTS if flags.num_envs is None else flags.num_envs
    if num_envs < 1 or seconds <= 0:
        raise ValueError(f"--num_envs {num_envs} and --seconds {seconds}: give positive numbers")
    return script, seconds, num_envs


def play(args: Arguments) -> int:
    reject_policy_flags(args.flags)
    with usage_errors():
        reject_changed_flags(args.flags, "it belongs to --policy", "folder")
    if args.flags.fault_dump is not None:
        return show_fault_dump(args)
    if args.flags.viewer or args.flags.keyboard:
        with usage_errors():
            reject_changed_flags(args.flags, "--viewer and --keyboard write no file", *WRITTEN)
        return show_viewer(args)
    flags, cfg, run = args.flags, args.cfg, args.existing_run
    with usage_errors():
        from rsl_rl.cli.export import export
        from rsl_rl.config.task import LeggedRobotConfig
        from rsl_rl.evaluation.command_script import read_commands
        from rsl_rl.evaluation.conditions import on_terrain
        from rsl_rl.evaluation.playback import check_command, for_playback, run_playback, start_video, write_playback
        from rsl_rl.runners.loading import load_policy
        from rsl_rl.utils.files import require_writable
        from rsl_rl.utils.seeding import require_device

        if not flags.page:
            reject_changed_flags(flags, "the flag belongs to --page", "page_add", "licence")
        script, seconds, num_envs = length_of(flags, read_commands)
        reject_changed_flags(flags, "--follow belongs to --viewer and --keyboard", "follow")
        require_device("sim_device", cfg.sim_device)
        has_robot = isinstance(cfg.env, LeggedRobotConfig)
        if has_robot:
            task = on_terrain(cfg.env, flags.terrain, flags.level)
            note = check_command(task.commands, flags.command)
            env_cfg = for_playback(task, num_envs, seconds, flags.command)
        else:
            no_robot = f"{type(cfg.env).__name__} is not the config of a legged robot, so there is nothing to show"
            shown = ("num_envs", "seconds", "command", "commands", "terrain", "level", "page")
            reject_changed_flags(flags, no_robot, *shown)
            env_cfg, note = cfg.env, ""
        env = env_cfg.build(cfg.sim_device, seed=cfg.seed)
        loaded = load_policy(cfg, env, run, flags.checkpoint)
        folder = run / "exported"
        require_writable(folder)

    print(f"playing {loaded.checkpoint}")
    if note:
        print(note)
    films = has_robot and not flags.page
    recording = run_playback(env, loaded.policy, seconds, script) if films else {}
    with start_video(recording, env, folder, films and flags.video) as video:
        equal = export(loaded, cfg, folder, flags.export)
        with usage_errors():
            if flags.page:
                print(write_page_of(loaded, env, args, folder / "policy.onnx"))
            elif films:
                for line in write_playback(recording, env, folder, video, flags.plot):
                    print(line)
    return 0 if equal else 1


def write_page_of(loaded: "LoadedPolicy", env: "LeggedRobot", args: Arguments, onnx: Path) -> str:
    """Write a web page of an exported policy; return a line on it."""
    from rsl_rl.contracts.contract import contract_json, read_contract
    from rsl_rl.evaluation.page_robot import describe_training, gather_robot
    from rsl_rl.viz.page import write_page

    if not onnx.is_file():
        raise ValueError("a page needs policy.onnx; install the extra: pip install 'rsl-rl-lib[export]'")
    flags, path = args.flags, expand_user(args.flags.page, "--page")
    groups = loaded.runner.alg.policy.actor_model.groups
    facts = describe_training(args.existing_run, loaded.checkpoint, args.cfg, loaded.env_steps, flags.licence)
    description = contract_json(read_contract(onnx.with_suffix(".json")))
    size = write_page(
        path, gather_robot(env, args.cfg.env, onnx.read_bytes(), description, groups, facts), flags.page_add
    )
    return f"page: {path} ({size / 1e6:.1f} MB; open it in a browser)"


@dataclass(frozen=True)
class ExportFlags(RunFlags):
    """Flags of an export; all other flags are fields of the config."""

    format: Literal["none", "c", "c-int8"] = "none"
    """Further format besides TorchScript and ONNX: c, a header and a source in C99; c-int8, with rounded weights of 8
    bits."""
    folder: str = ""
    """Folder to write; default: exported/ in the run's folder."""


def export_main(argv: Sequence[str]) -> int:
    """Export a trained policy: `rsl-rl export --task go2_flat`.

    Writes the policy as TorchScript and ONNX, with a description of inputs and outputs, as `play` does, and no video.
    Each file is compared with the policy over a rollout (parity.json); if one differs, the exit code is 1.
    """
    args = parse(ExportFlags, inspect.cleandoc(export_main.__doc__ or ""), from_run=True, argv=argv)
    flags, cfg, run = args.flags, args.cfg, args.existing_run
    with usage_errors():
        from rsl_rl.cli.export import build_parity_env, export
        from rsl_rl.runners.loading import load_policy
        from rsl_rl.utils.files import require_writable
        from rsl_rl.utils.seeding import require_device

        require_device("sim_device", cfg.sim_device)
        loaded = load_policy(cfg, build_parity_env(cfg), run, flags.checkpoint)
        folder = expand_user(flags.folder, "--folder") if flags.folder else run / "exported"
        require_writable(folder)
    print(f"exporting {loaded.checkpoint}")
    return 0 if export(loaded, cfg, folder, flags.format) else 1


def show_fault_dump(args: Arguments) -> int:
    """Simulate the last steps of a robot that broke in training again; show a table, a plot and a video."""
    flags, cfg, run = args.flags, args.cfg, args.existing_run
    with usage_errors():
        from rsl_rl.evaluation.fault_replay import (
            describe_replay,
            find_fault_dump,
            headline,
            load_fault_dump,
            replay_fault,
            step_summaries,
            write_fault_report,
        )
        from rsl_rl.utils.seeding import require_device

        unused = ("checkpoint", "num_envs", "seconds", "command", "commands", "viewer", "follow", "keyboard")
        reject_changed_flags(flags, "--fault_dump shows a recorded fault", *unused, *WRITTEN)
        require_device("sim_device", cfg.sim_device)
        path = find_fault_dump(run, flags.fault_dump)
        dump = load_fault_dump(path, cfg.env)
        replay = replay_fault(dump, cfg.env, cfg.sim_device)

    print(f"replaying {path}")
    print(f"{headline(dump)}, iteration {dump.iteration}, step {dump.step}")
    print_table("", [STEP_COLUMNS, *map(step_cells, step_summaries(dump, replay))])
    print(describe_replay(dump, replay))
    if dump.values:
        print_table("", [("term", "value"), *((name, shown_value(value)) for name, value in dump.values.items())])
    with usage_errors():
        for line in write_fault_report(dump, replay, path, flags.video):
            print(line)
    return 0


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
