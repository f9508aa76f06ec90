"""Make an entry of the zoo of a finished run: `rsl-rl zoo add RUN`. Numbers of its card are measured here."""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from rsl_rl.cli import evaluate
from rsl_rl.cli.command_line import Arguments, parse
from rsl_rl.cli.errors import usage_errors
from rsl_rl.utils.provenance import FILE as PROVENANCE
from rsl_rl.zoo.card import FILM, Card, Criterion, Endurance, Evaluation, Training
from rsl_rl.zoo.entries import CONFIG, CONTRACT, ONNX, Entry, Zoo, sha256_of, write_entry
from rsl_rl.zoo.readme import DISTURBED

DISTURBANCES = ("none", "heavy_trunk", "slippery", "delay", "weak_motors", "pushes")


def add_entry(zoo: Zoo, flags: argparse.Namespace) -> int:
    """Export a run, evaluate it, and write the entry."""
    with usage_errors():
        task, made_by = read_run(flags.entry_of)
        name = flags.name or task.partition(":")[2] or task
        zoo.require_free(name, flags.replace)
        if not flags.licence.strip():
            raise ValueError("--licence is empty; give the licence of the policy, such as BSD-3-Clause")
    sizes = ("num_envs", "seconds", "num_seeds")
    wanted = [word for size in sizes for word in (f"--{size}", str(getattr(flags, size)))]
    wanted += joystick_flags(flags.robot_hours)
    place = ["--task", task, "--load_run", str(flags.entry_of.resolve()), "--checkpoint", flags.checkpoint]
    args = parse(evaluate.Flags, "", from_run=True, argv=[*place, *wanted, "--report", "none"])
    with usage_errors(), tempfile.TemporaryDirectory() as exported, zoo.new_entry(name, flags.replace) as folder:
        evaluate.require_positive_flags(args.flags)
        training = describe_training(args, made_by)
        if not export_run(args, Path(exported)):
            raise ValueError("the exported files do not act like the policy; no entry is written")
        evaluation = measure(args)
        made = None if flags.no_film else film_of(Path(exported) / ONNX, task)
        card = Card(
            name=name,
            task=task,
            robot=args.cfg.env.robot,
            sha256=sha256_of(Path(exported) / ONNX),
            training=training,
            evaluation=evaluation,
            licence=flags.licence,
            known_weaknesses=tuple(flags.weakness),
            film=FILM if made else "",
        )
        files = {
            ONNX: (Path(exported) / ONNX).read_bytes(),
            CONTRACT: with_provenance(Path(exported) / CONTRACT, training),
            CONFIG: (args.existing_run / CONFIG).read_bytes(),
            **({FILM: made} if made else {}),
        }
        write_entry(folder, card, files)
    print(f"gate {'passed' if evaluation.gate_passed else 'missed: ' + '; '.join(evaluation.unmet)}")
    print(f"added {zoo.folder / name}")
    return 0


def add_film(entry: Entry) -> int:
    """Film the policy of an entry, again if it has a film."""
    with usage_errors():
        content = film_of(entry.onnx, entry.card.task)
        if content is None:
            return 1
        write_entry(entry.folder, replace(entry.card, film=FILM), {FILM: content})
    print(f"film: {entry.folder / FILM} ({len(content) / 1000:.0f} kB)")
    return 0


def film_of(onnx: Path, task: str) -> Optional[bytes]:
    """Return the film of an exported policy; without an OpenGL driver, print a line and return None."""
    from rsl_rl.cli.zoo.film import film
    from rsl_rl.viz.video import VideoError

    try:
        return film(onnx, task)
    except VideoError as error:
        print(error)
        return None


def joystick_flags(robot_hours: float) -> List[str]:
    """Return the flags of evaluate for joystick tests of a length; none for 0."""
    return ["--joystick", "--robot_hours", str(robot_hours)] if robot_hours else []


def read_run(run: Path) -> Tuple[str, Dict[str, Any]]:
    """Return the task of a run, and what its provenance.json says; a run that no single command makes is a
    ValueError."""
    from rsl_rl.contracts.contract import read_json
    from rsl_rl.utils.checkpoints import later_configs
    from rsl_rl.utils.config_io import read_yaml, short_repr

    if not (run / CONFIG).is_file():
        raise FileNotFoundError(f"{run} is not the folder of a run: it has no {CONFIG}")
    if later_configs(run):
        after = ", ".join(map(str, sorted(later_configs(run))))
        raise ValueError(f"{run} was resumed after iteration {after}; the command of a card trains from the start")
    if not (run / PROVENANCE).is_file():
        raise FileNotFoundError(
            f"{run} has no {PROVENANCE}, which says what trained it; train it again with this version"
        )
    task = read_yaml(run / CONFIG).get("task")
    if not isinstance(task, str) or not task:
        raise ValueError(f"{run / CONFIG}: task={short_repr(task)}; give a run of rsl-rl train")
    made_by = read_json(run / PROVENANCE)
    if not isinstance(made_by, dict):
        raise ValueError(f"{run / PROVENANCE}={short_repr(made_by)}; it is damaged, train the run again")
    return task, made_by


def describe_training(args: Arguments, made_by: Mapping[str, Any]) -> Training:
    """Return the part of a card on the training of a run that has ended."""
    from rsl_rl.cli.trainings import final_metrics
    from rsl_rl.config.task import LeggedRobotConfig
    from rsl_rl.loggers.logger import read_metrics
    from rsl_rl.utils.checkpoints import BEST, best_iteration, find_checkpoint, iteration_of
    from rsl_rl.utils.config_io import from_dict, read_yaml

    cfg, run = args.cfg, args.existing_run
    if not isinstance(cfg.env, LeggedRobotConfig):
        raise ValueError(f"'{cfg.task}' is a task without a legged robot; a zoo has policies of legged robots")
    if final_metrics(run, cfg) is None:
        raise ValueError(f"{run} has not reached the end of its training; finish it first")
    which = args.flags.checkpoint
    last = best_iteration(run) if which == BEST else iteration_of(find_checkpoint(run, which))
    records = [record for record in read_metrics(run) if record["iteration"] <= last]
    words = shlex.split(str(made_by.get("command", "")))
    if not any(word.partition("=")[0] == "--seed" for word in words):
        words += ["--seed", str(cfg.seed)]
    as_run = read_yaml(run / CONFIG)  # cfg may have an engine of this machine in place of that of the training
    devices = [str(as_run.get(name, "cpu")) for name in ("sim_device", "rl_device")]
    values = {
        **made_by,
        "command": shlex.join(words),
        "seed": cfg.seed,
        "engine": as_run["env"]["sim"]["backend"],
        "device": ", ".join(dict.fromkeys(devices)),
        "checkpoint": which if which == BEST else last,
        "samples": records[-1]["env_steps"],
        "seconds": round(sum(record["collect_s"] + record["learn_s"] for record in records), 1),
    }
    return from_dict(Training, values, "training")


def export_run(args: Arguments, folder: Path) -> bool:
    """Export the policy of a run; return whether the files act like it."""
    from rsl_rl.cli.export import build_parity_env, export
    from rsl_rl.runners.loading import load_policy

    loaded = load_policy(args.cfg, build_parity_env(args.cfg), args.existing_run, args.flags.checkpoint)
    equal = export(loaded, args.cfg, folder)
    if not (folder / ONNX).is_file():
        raise ValueError("an entry needs policy.onnx; install the extra: pip install 'rsl-rl-lib[export]'")
    return equal


def with_provenance(path: Path, training: Training) -> bytes:
    """Return policy.json with what made the policy in place of what exported it here."""
    from rsl_rl.contracts.contract import Provenance, contract_json, read_contract

    made_by = Provenance(
        command=training.command,
        commit=training.commit,
        version=training.versions.get("rsl-rl-lib", ""),
        checkpoint=f"model_{training.checkpoint}.pt",
    )
    return (json.dumps(contract_json(replace(read_contract(path), provenance=made_by)), indent=2) + "\n").encode()


def measure(args: Arguments) -> Evaluation:
    """Evaluate the policy of a run under a joystick, and under disturbances."""
    from rsl_rl.evaluation.evaluate import finite

    flags, seed = args.flags, args.cfg.seed + 1000
    (candidate,) = evaluate.load_candidates(evaluate.find_checkpoints([args]))
    result = evaluate.evaluate_candidate(candidate, flags, seed)
    evaluate.print_tables([result], f"{flags.num_envs} robots, {flags.seconds:g} s, {flags.num_seeds} seed(s)")
    plain = replace(flags, joystick=False)
    disturbed = [
        evaluate.evaluate_candidate(one, plain, seed) for one in evaluate.disturbed_candidates(candidate, DISTURBANCES)
    ]
    metrics = finite(result.metrics)
    return Evaluation(
        robots=flags.num_envs,
        seconds=flags.seconds,
        seeds=tuple(range(seed, seed + flags.num_seeds)),
        metrics=metrics,
        gate={name: Criterion(limit, metrics.get(name)) for name, limit in args.cfg.env.gate.items()},
        gate_passed=not result.unmet,
        endurance={name: endurance_of(test) for name, test in result.joystick.items()},
        disturbances={
            one.disturbance: {name: finite(one.metrics).get(name) for name in DISTURBED} for one in disturbed
        },
        unmet=tuple(result.unmet),
        warnings=tuple(result.warnings),
    )


def endurance_of(test: Any) -> Endurance:
    """Return an endurance test as a part of a card."""
    from rsl_rl.evaluation.evaluate import finite

    return Endurance(
        robot_hours=test.robot_hours,
        failures=test.num_failures,
        hours_between_failures=finite(test.hours_between_failures),
        interval=tuple(finite(test.interval)),
        lin_vel_error=test.lin_vel_error,
        yaw_rate_error=test.yaw_rate_error,
    )
