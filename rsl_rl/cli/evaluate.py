"""Evaluate trained policies: `rsl-rl evaluate --task go2_flat`. The last line is JSON.

Several checkpoints (--checkpoints 100 120) or runs (--load_runs a b) are compared with the same robots and commands. An
HTML report with plots is written into the folder of the run. For a task without a legged robot, the returns of whole
episodes are measured instead.
"""

import json
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Literal, NamedTuple, Optional, Sequence, Tuple, Union

from rsl_rl.cli.command_line import Arguments, RunFlags, parse, reject_changed_flags
from rsl_rl.cli.errors import FlagParser, fail, usage_errors
from rsl_rl.cli.policy_flags import names_policy, reject_policy_flags, with_task_of_robot
from rsl_rl.cli.tables import fits_terminal, print_table
from rsl_rl.config.task import LeggedRobotConfig

if TYPE_CHECKING:
    from rsl_rl.evaluation.conditions import ActingPolicy
    from rsl_rl.evaluation.evaluate import EvalResult


@dataclass(frozen=True)
class Flags(RunFlags):
    """Flags of an evaluation; all other flags are fields of the config."""

    load_runs: Tuple[str, ...] = ()
    """Folders of several runs, to compare them."""
    checkpoints: Tuple[Union[int, Literal["best"]], ...] = ()
    """Several iterations of each run, to compare them."""
    num_envs: int = 256
    """Number of robots."""
    seconds: float = 20.0
    """Length of the evaluation [s]."""
    num_seeds: int = 1
    """Number of evaluations, each with other commands and robots."""
    episodes: int = 100
    """Number of episodes, for a task without a legged robot."""
    sample_actions: bool = False
    """Draw actions from the policy's distribution, as in training, for a task without a legged robot."""
    pushes: bool = False
    """Push the robots as in training."""
    disturbance: Tuple[str, ...] = ()
    """Evaluate each policy under named conditions, equal for all policies, instead of the randomisation of its
    training: none, heavy_trunk, slippery, delay, weak_motors, pushes, or several joined by +."""
    standing: bool = False
    """Also measure how far robots drift in 10 s that are to stand [m]."""
    policy: Tuple[str, ...] = ()
    """Files of policies, ONNX or TorchScript of any program, to evaluate through their contracts instead of a run."""
    contract: Tuple[str, ...] = ()
    """Contract of each policy, or one of all, see rsl-rl contract; default: in its file, or policy.json beside it."""
    set: Tuple[str, ...] = ()
    """FIELD=VALUE of contracts, for what they do not say."""
    robot: str = ""
    """Robot of the policies: go2 is --task go2_flat; or its URDF or MJCF file."""
    joystick: bool = False
    """Also let robots walk with commands that change as a joystick gives them, without and with pushes: time between
    failures, dead zone and drift. Its criteria are in env.gate too."""
    robot_hours: float = 15.0
    """Robot-hours of each of the two tests with --joystick, over all seeds."""
    curriculum: bool = False
    """Also measure the mean level of terrain that robots reach with the curriculum, from level 0."""
    command_period: float = 10.0
    """Time after which the robots get new commands [s]."""
    terrain: str = ""
    """Type of ground for all robots, such as stairs_up; default: all types of the task."""
    level: int = -1
    """Level of the ground for all robots, from 0; default: all levels."""
    report: str = ""
    """File of the HTML report, or "none"; default: evaluation_<iteration>.html in the run's folder, or comparison.html
    in the first run's folder for several checkpoints."""


ROBOT_FLAGS = (
    *("num_envs", "seconds", "num_seeds", "pushes", "disturbance", "standing", "curriculum", "command_period"),
    *("joystick", "robot_hours", "terrain", "level", "report"),
)
"""Flags that only legged robots have."""


class Candidate(NamedTuple):
    """A checkpoint to evaluate."""

    name: str
    policy: "ActingPolicy"
    checkpoint: Path
    env_steps: int  # of its training
    env_cfg: LeggedRobotConfig
    sim_device: str
    task: LeggedRobotConfig  # that of the training, on the ground of the evaluation
    disturbance: str = ""


def main(argv: Sequence[str]) -> int:
    if names_policy(argv):
        return evaluate_policies(argv)
    requests = [parse(Flags, __doc__ or "", from_run=True, argv=line) for line in command_lines(argv)]
    flags, seed = requests[0].flags, requests[0].cfg.seed + 1000
    reject_policy_flags(flags)
    with usage_errors():
        require_positive_flags(flags)
        found = find_checkpoints(requests)
        walks = isinstance(requests[0].cfg.env, LeggedRobotConfig)
        if walks:
            reject_changed_flags(flags, "legged robots walk for --seconds", "episodes", "sample_actions")
            report = report_path(flags.report, found)
            candidates = load_candidates(found)
    if not walks:
        return evaluate_episodes(found, flags, seed)
    return evaluate_and_report(candidates, flags, requests[0].cfg, report)


def evaluate_and_report(candidates: Sequence[Candidate], flags: Any, cfg: Any, report: Optional[Path]) -> int:
    """Evaluate legged robots; print the results and write the report."""
    eval_results = [evaluate_candidate(candidate, flags, cfg.seed + 1000) for candidate in candidates]
    conditions = f"{flags.num_envs} robots, {flags.seconds:g} s, {flags.num_seeds} seed(s)"
    if flags.command_period != Flags.command_period:
        conditions += f", new commands every {flags.command_period:g} s"
    if flags.pushes:
        conditions += ", with pushes"
    if flags.terrain:
        conditions += f", on {flags.terrain}"
    if flags.level >= 0:
        conditions += f", level {flags.level}"
    print_tables(eval_results, conditions)
    print_gate_results(eval_results)
    if report is not None:
        print(write_report(report, cfg.task, conditions, eval_results))
    print(json.dumps(as_json(eval_results)))
    return 0


def evaluate_policies(argv: Sequence[str]) -> int:
    """Evaluate policies of any program through their contracts: `--policy FILE --robot go2`."""
    args = parse(Flags, __doc__ or "", from_run=False, argv=with_task_of_robot(argv))
    flags, cfg = args.flags, args.cfg
    with usage_errors():
        from rsl_rl.cli.policy_files import load_policy_files
        from rsl_rl.evaluation.conditions import for_evaluation, on_terrain
        from rsl_rl.evaluation.curriculum import require_curriculum

        reject_changed_flags(flags, "--policy names the policies", "load_run", "load_runs", "checkpoint", "checkpoints")
        reject_changed_flags(flags, "legged robots walk for --seconds", "episodes", "sample_actions")
        require_positive_flags(flags)
        report = None if flags.report in ("", "none") else report_file(flags.report)
        groups = cfg.policy.actor_groups
        files = load_policy_files(flags.policy, flags.contract, flags.set, cfg.env, groups, flags.robot)
        candidates: List[Candidate] = []
        for name, file in files.items():
            task = on_terrain(file.task, flags.terrain, flags.level)
            if flags.curriculum:
                require_curriculum(task)
            env_cfg = for_evaluation(task, flags.num_envs, flags.seconds, flags.pushes, flags.command_period)
            candidate = Candidate(name, file.acting, file.path, 0, env_cfg, cfg.sim_device, task)
            candidates += disturbed_candidates(candidate, flags.disturbance)
    return evaluate_and_report(candidates, flags, cfg, report)


def command_lines(argv: Sequence[str]) -> List[List[str]]:
    """Return a command line for each checkpoint of --load_runs and --checkpoints; each is parsed with the config of its
    run."""
    parser = FlagParser(add_help=False, allow_abbrev=False)
    for name, count in (("load_run", None), ("load_runs", "+"), ("checkpoint", None), ("checkpoints", "+")):
        parser.add_argument(f"--{name}", f"--{name.replace('_', '-')}", nargs=count)
    known, rest = parser.parse_known_args(argv)
    for name in ("load_run", "checkpoint"):
        if getattr(known, name) is not None and getattr(known, f"{name}s") is not None:
            fail(f"--{name} and --{name}s exclude each other; use only one of them")
    runs = known.load_runs or ["-1" if known.load_run is None else known.load_run]
    checkpoints = known.checkpoints or ["-1" if known.checkpoint is None else known.checkpoint]
    return [[*rest, "--load_run", run, "--checkpoint", iteration] for run in runs for iteration in checkpoints]


def require_positive_flags(flags: Any) -> None:
    for name in ("num_envs", "seconds", "num_seeds", "command_period", "robot_hours", "episodes"):
        if getattr(flags, name) <= 0:
            raise ValueError(f"--{name} {getattr(flags, name)}: give a positive number")


def find_checkpoints(requests: Sequence[Arguments]) -> List[Tuple[Arguments, Path]]:
    """Return the checkpoint of each command line; a missing one is a ValueError."""
    from rsl_rl.utils.checkpoints import find_checkpoint

    found: List[Tuple[Arguments, Path]] = []
    for args in requests:
        path = find_checkpoint(args.existing_run, args.flags.checkpoint)
        if any(path.samefile(other) for _, other in found):
            raise ValueError(f"{path} is named twice; name each run and each checkpoint once")
        found.append((args, path))
    return found


def load_candidates(found: Sequence[Tuple[Arguments, Path]]) -> List[Candidate]:
    """Load all checkpoints, so that errors occur before the first evaluation."""
    from rsl_rl.evaluation.conditions import for_evaluation, on_terrain
    from rsl_rl.evaluation.curriculum import require_curriculum
    from rsl_rl.runners.loading import load_policy
    from rsl_rl.utils.checkpoints import checkpoint_id
    from rsl_rl.utils.seeding import require_device

    candidates, several_runs = [], len({args.run for args, _ in found}) > 1
    for args, path in found:
        flags, cfg, run = args.flags, args.cfg, args.existing_run
        require_device("sim_device", cfg.sim_device)
        task = on_terrain(cfg.env, flags.terrain, flags.level)
        env_cfg = for_evaluation(task, flags.num_envs, flags.seconds, flags.pushes, flags.command_period)
        env = env_cfg.build(cfg.sim_device, seed=cfg.seed)  # for the sizes of the policy; each seed builds its own
        loaded = load_policy(cfg, env, run, checkpoint_id(path))
        name = f"{run.name}/{path.stem}" if several_runs else path.stem
        if flags.curriculum:
            require_curriculum(task)
        known = (loaded.policy, loaded.checkpoint, loaded.env_steps)
        candidates += disturbed_candidates(Candidate(name, *known, env_cfg, cfg.sim_device, task), flags.disturbance)
    return candidates


def disturbed_candidates(candidate: Candidate, disturbances: Sequence[str]) -> List[Candidate]:
    """Return a candidate for each disturbance; without any, the candidate as it is."""
    from rsl_rl.evaluation.conditions import disturbed

    return [
        candidate._replace(
            name=f"{candidate.name} {disturbance}",
            env_cfg=disturbed(candidate.env_cfg, disturbance),
            disturbance=disturbance,
        )
        for disturbance in disturbances
    ] or [candidate]


def report_path(name: str, found: Sequence[Tuple[Arguments, Path]]) -> Optional[Path]:
    """Return the path of the report, or None for no report; an unusable path is a ValueError."""
    from rsl_rl.utils.checkpoints import checkpoint_id

    if name == "none":
        return None
    if not name:
        first = found[0][1]
        stem = "comparison" if len(found) > 1 else f"evaluation_{checkpoint_id(first)}"
        return first.with_name(f"{stem}.html")
    return report_file(name)


def report_file(name: str, flag: str = "--report") -> Path:
    """Return the path of a report that a flag names; an unusable one is a ValueError."""
    from rsl_rl.utils.files import is_regular_file

    path = Path(name)
    if not path.parent.is_dir() or ((path.exists() or path.is_symlink()) and not is_regular_file(path)):
        raise ValueError(f"{flag} {name} is not a file in an existing folder; give a name such as report.html")
    return path


def evaluate_candidate(candidate: Candidate, flags: Any, seed: int) -> "EvalResult":
    """Evaluate a checkpoint with each seed; all checkpoints get the same robots and commands."""
    from rsl_rl.evaluation.conditions import for_standing
    from rsl_rl.evaluation.curriculum import for_curriculum, measure_level
    from rsl_rl.evaluation.endurance import evaluate_joystick
    from rsl_rl.evaluation.evaluate import EvalResult, evaluate_seed, measure_drift
    from rsl_rl.evaluation.motion_tracking import for_tracking, measure_tracking, metrics_of, tracks_motions
    from rsl_rl.utils.progress import ProgressLines

    name, policy, checkpoint, env_steps, env_cfg, device, task, disturbance = candidate
    seed_results, feet = [], ()
    for own_seed in range(seed, seed + flags.num_seeds):
        env = env_cfg.build(device, seed=own_seed)
        feet = tuple(env.sim.foot_names)
        result = evaluate_seed(env, policy, flags.seconds)
        if tracks_motions(env):
            env = for_tracking(env_cfg).build(device, seed=own_seed)
            result = result._replace(clips=measure_tracking(env, policy))
            result.metrics.update(metrics_of(result.clips))
        if flags.standing:
            result.metrics.update(measure_drift(for_standing(env_cfg).build(device, seed=own_seed), policy))
        if flags.curriculum:
            env = for_curriculum(env_cfg, task).build(device, seed=own_seed)
            result.metrics.update(measure_level(env, policy))
        if flags.joystick:
            hours = flags.robot_hours / flags.num_seeds
            print(f"{name}: {2 * hours:g} robot-hours under a joystick, seed {own_seed}", flush=True)
            progress = ProgressLines("joystick")
            joystick = evaluate_joystick(task, policy, device, own_seed, hours, disturbance, progress=progress)
            result = result.with_joystick(joystick)
        seed_results.append(result)
    return EvalResult(name, str(checkpoint), env_steps, env_cfg, feet, seed_results, disturbance)


def print_tables(eval_results: Sequence["EvalResult"], conditions: str) -> None:
    from rsl_rl.evaluation.endurance_report import failure_rows, small_command_rows
    from rsl_rl.evaluation.motion_tracking import LOOP_TIME, clip_rows

    spread = ", means over the seeds with 95 % intervals" if eval_results[0].intervals else ""
    subject = eval_results[0].checkpoint if len(eval_results) == 1 else "side by side"
    _print_side_by_side(f"{subject}: {conditions}{spread}", eval_results, _metric_rows)
    if all(one.tracking for one in eval_results):
        title = "Tracking errors by command: velocity in m/s, yaw rate in rad/s"
        _print_side_by_side(title, eval_results, _tracking_rows)
    for one in (one for one in eval_results if one.clips):
        whose = f"{one.name}: " if len(eval_results) > 1 else ""
        print_table(
            f"{whose}each clip from its first frame to its last, loops for {LOOP_TIME:g} s", clip_rows(one.clips)
        )
    for one in (one for one in eval_results if one.joystick):
        whose = f"{one.name}: " if len(eval_results) > 1 else ""
        titles = ("endurance under a joystick", "dead zone by direction [m/s, rad/s]")
        for title, cells in zip(titles, (failure_rows(one), small_command_rows(one))):
            print_table(whose + title, cells)


def _print_side_by_side(
    title: str, eval_results: Sequence["EvalResult"], rows_of: Callable[[Sequence["EvalResult"]], List[List[str]]]
) -> None:
    """Print a table with a column for each result, or two tables with half of the results each if it is wider than the
    terminal."""
    rows, middle = rows_of(eval_results), len(eval_results) // 2
    if middle and not fits_terminal(rows):
        _print_side_by_side(title, eval_results[:middle], rows_of)
        _print_side_by_side("", eval_results[middle:], rows_of)
    else:
        print_table(title, rows)


def _metric_rows(eval_results: Sequence["EvalResult"]) -> List[List[str]]:
    """Return the rows of a table of all metrics, with the limits of the gate."""
    from rsl_rl.evaluation.evaluate import SATURATION_LIMIT, metric_names

    limits = eval_results[0].env_cfg.gate
    rows = [["", *_heads(eval_results), "gate"]]
    for number in metric_names(eval_results):
        values = [f"{one.metrics[number]:.4f}" if number in one.metrics else "-" for one in eval_results]
        for i, one in enumerate(eval_results):
            values[i] += "\n{:.3f}..{:.3f}".format(*one.intervals[number]) if number in one.intervals else ""
        warned = number == "torque_saturation" and any(one.warnings for one in eval_results)
        note = f"<= {limits[number]}" if number in limits else f"warning: > {SATURATION_LIMIT:g}" if warned else ""
        rows.append([number, *values, note])
    for cause in (cause for cause in eval_results[0].falls if any(one.falls.get(cause) for one in eval_results)):
        rows.append([f"falls: {cause}", *(f"{one.falls.get(cause, 0.0):.4f}" for one in eval_results), ""])
    return rows


def _tracking_rows(eval_results: Sequence["EvalResult"]) -> List[List[str]]:
    """Return the rows of a table of the errors by command."""
    rows = [["", *_heads(eval_results)]]
    for bins in zip(*(one.tracking for one in eval_results)):
        errors = [f"{one.lin_vel_error:.3f}, {one.yaw_rate_error:.3f}" for one in bins]
        rows.append([f"{bins[0].axis} {bins[0].low:+.2f} to {bins[0].high:+.2f}", *errors])
    return rows


def _heads(eval_results: Sequence["EvalResult"]) -> List[str]:
    """Return the names of results, each word on its own line."""
    return [one.name.replace(" ", "\n") for one in eval_results]


def print_gate_results(eval_results: Sequence["EvalResult"]) -> None:
    """Print a line for each checkpoint: whether it passes the gate, and what it misses; and its warnings."""
    from rsl_rl.evaluation.evaluate import differences
    from rsl_rl.evaluation.report import DIFFERENT

    if differences(eval_results):
        print("note:", DIFFERENT.format(", ".join(differences(eval_results))))
    for one in eval_results:
        whose = f"{one.name}: " if len(eval_results) > 1 else ""
        print(f"{whose}gate passed" if not one.unmet else f"{whose}gate missed: {'; '.join(one.unmet)}")
        for warning in one.warnings:
            print(f"warning: {whose}{warning}")
        if one.not_measured:
            print(f"note: {whose}not measured: {', '.join(one.not_measured)}; add --joystick")


def write_report(path: Path, task: str, conditions: str, eval_results: Sequence["EvalResult"]) -> str:
    """Write the report and return a line on it; an error of the disk does not end the script."""
    from rsl_rl.evaluation.endurance_report import endurance_html
    from rsl_rl.evaluation.motion_report import tracking_html
    from rsl_rl.evaluation.report import report_html
    from rsl_rl.utils.files import atomic_write

    page = report_html(
        f"{task}: evaluation",
        f"{conditions}.",
        eval_results,
        chain(tracking_html(eval_results), endurance_html(eval_results)),
    )
    try:
        atomic_write(path, page.encode())
    except OSError as error:
        return f"no report: {error}"
    return f"report: {path}"


def as_json(eval_results: Sequence["EvalResult"]) -> Dict[str, Any]:
    """Return the content of the last line: the first checkpoint, and if there are several, all under "checkpoints"."""
    from rsl_rl.evaluation.evaluate import finite

    results = [
        {
            **one.metrics,
            "env_steps": one.env_steps,
            "checkpoint": one.checkpoint,
            **({"disturbance": one.disturbance} if one.disturbance else {}),
            "gate_passed": not one.unmet,
            "warnings": one.warnings,
            "num_seeds": len(one.seed_results),
            "intervals": one.intervals,
            "falls": one.falls,
            "tracking": [row._asdict() for row in one.tracking],
            **(
                {"clips": [{**clip._asdict(), "success_rate": clip.success_rate} for clip in one.clips]}
                if one.clips
                else {}
            ),
            **({"joystick": {name: test.as_dict() for name, test in one.joystick.items()}} if one.joystick else {}),
        }
        for one in eval_results
    ]
    return finite({**results[0], "checkpoints": results} if len(results) > 1 else results[0])


def evaluate_episodes(found: Sequence[Tuple[Arguments, Path]], flags: Any, seed: int) -> int:
    """Print the returns of each checkpoint, all with the same seed; the last line is JSON."""
    from rsl_rl.evaluation.returns import episode_returns

    results: List[Dict[str, Any]] = []
    with usage_errors():
        no_robot = f"{found[0][0].cfg.task} is a task without a legged robot; it is evaluated by whole --episodes"
        reject_changed_flags(flags, no_robot, *ROBOT_FLAGS)
        loaded = [(path, *load_with_episodes(args, path, flags.episodes, seed)) for args, path in found]
    for path, env, policy in loaded:
        episodes = episode_returns(env, policy.policy, act=policy.policy.act if flags.sample_actions else None)
        numbers = episodes.summary()
        results.append({**numbers, "env_steps": policy.env_steps, "checkpoint": str(path)})
        print(
            f"{path}: return {numbers['mean_return']:.1f} (standard deviation {numbers['std_return']:.1f}, "
            f"{numbers['min_return']:.1f} to {numbers['max_return']:.1f}), length {numbers['mean_length']:.1f}, "
            f"{numbers['episodes']} episodes"
        )
        if episodes.num_unfinished:
            print(f"note: {episodes.num_unfinished} episodes did not end and were cut off")
    print(json.dumps({**results[0], "checkpoints": results} if len(results) > 1 else results[0]))
    return 0


def load_with_episodes(args: Arguments, path: Path, episodes: int, seed: int) -> Tuple[Any, Any]:
    """Return an environment with a new instance for each episode, and the policy of a checkpoint."""
    from rsl_rl.env import as_vec_env
    from rsl_rl.runners.loading import load_policy
    from rsl_rl.utils.checkpoints import checkpoint_id
    from rsl_rl.utils.seeding import require_device, seed_everything

    cfg, run = args.cfg, args.existing_run
    require_device("sim_device", cfg.sim_device)
    seed_everything(seed)  # a task may draw from the generators of the process
    policy = load_policy(cfg, cfg.env.build(cfg.sim_device, seed=seed), run, checkpoint_id(path))  # steps this one
    return as_vec_env(replace(cfg.env, num_envs=episodes).build(cfg.sim_device, seed=seed)), policy
