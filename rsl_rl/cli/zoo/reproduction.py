"""Train a policy of the zoo again by its card: `rsl-rl zoo reproduce NAME`."""

from __future__ import annotations

import argparse
import os
import shlex
import time
from pathlib import Path
from typing import List, Mapping

from rsl_rl.cli import evaluate
from rsl_rl.cli.command_line import parse
from rsl_rl.cli.errors import print_line, usage_errors
from rsl_rl.cli.experiments import default_log_root
from rsl_rl.cli.trainings import TrainProcesses, describe_exit
from rsl_rl.cli.zoo.addition import joystick_flags
from rsl_rl.utils.config_io import read_yaml, short_repr
from rsl_rl.utils.files import require_writable
from rsl_rl.zoo.card import Card
from rsl_rl.zoo.entries import CONFIG, ONNX, Entry, setting_differences, sha256_of

EXPORTED = "exported"


def reproduce_entry(entry: Entry, flags: argparse.Namespace) -> int:
    """Train, export and compare; return 0 for equal files, and 1 for others, which are compared by an evaluation."""
    card = entry.card
    with usage_errors():
        words = training_flags(card)
        require_checkpoint(entry)
        folder = (flags.log_root or default_log_root() / "zoo").resolve()
        require_writable(folder)
        reasons = environment_differences(card)
    for reason in reasons:
        print_line(f"note: {reason}")
    name = f"{card.name}_{time.strftime('%Y-%m-%d_%H-%M-%S')}"
    # torch reads these when it starts; sums over another number of threads are rounded otherwise
    os.environ.update(OMP_NUM_THREADS=str(card.training.threads), MKL_NUM_THREADS=str(card.training.threads))
    processes = TrainProcesses()
    print_line(f"training: {card.training.command}")
    code = processes.run([*words, "--log_root", str(folder), "--experiment_name", name])
    if processes.interrupted:
        return processes.exit_code
    if code != 0:
        print_line(f"the training has failed: {describe_exit(code)}")
        return 1
    with usage_errors():
        onnx = export_again(card, folder / name)
    reasons += setting_differences(entry.folder / CONFIG, onnx.parent.parent / CONFIG)
    return report(entry, onnx, reasons, flags.robot_hours)


def training_flags(card: Card) -> List[str]:
    """Return the flags of a card's command on the engine and devices of the card."""
    words = shlex.split(card.training.command)
    if words[:2] != ["rsl-rl", "train"]:
        raise ValueError(
            f"{card.name} was trained by several processes, which this command does not start; run: "
            f"{card.training.command}"
        )
    given = {word.partition("=")[0] for word in words}
    sim_device, _, rl_device = card.training.device.partition(", ")
    places = {"env.sim.backend": card.training.engine, "sim_device": sim_device, "rl_device": rl_device or sim_device}
    for name, value in places.items():
        if f"--{name}" not in given:
            words += [f"--{name}", value]
    return words[2:]


def require_checkpoint(entry: Entry) -> None:
    """Raise a ValueError if the training of an entry ends before its checkpoint."""
    checkpoint, runner = entry.card.training.checkpoint, read_yaml(entry.folder / CONFIG).get("runner")
    last = runner.get("max_iterations") if isinstance(runner, dict) else None
    if isinstance(checkpoint, int) and not (isinstance(last, int) and checkpoint <= last):
        raise ValueError(
            f"{entry.card.name}: the card names the checkpoint {checkpoint}, and its {CONFIG} ends with "
            f"max_iterations={short_repr(last)}; get the entry again"
        )


def environment_differences(card: Card) -> List[str]:
    """Return a sentence for each thing, besides settings, that differs from the training of a card and may change
    bits."""
    from rsl_rl.utils.provenance import training_provenance

    now, before = training_provenance(()), card.training
    found = [
        f"{what} is {now[name]}, and was {getattr(before, name)}"
        for name, what in (("instruction_set", "the instruction set"), ("cpu", "the CPU"))
        if now[name] != getattr(before, name)
    ]
    found += version_differences(before.versions, now["versions"])
    if now["commit"] != before.commit:
        found.append(f"the commit is {now['commit'] or 'not known'}, and was {before.commit or 'not known'}")
    for when, files in (("now", now["changed_files"]), ("then", before.changed_files)):
        if files:
            found.append(f"files that differ from the commit {when}: {', '.join(files)}")
    return found


def version_differences(before: Mapping[str, str], now: Mapping[str, str]) -> List[str]:
    """Return a sentence for each package whose version differs."""
    return [
        f"{name} is {now.get(name, 'not installed')}, and was {before.get(name, 'not installed')}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def export_again(card: Card, experiment: Path) -> Path:
    """Export the policy of the new run in an experiment's folder; return its ONNX file."""
    from rsl_rl.cli.export import build_parity_env, export
    from rsl_rl.cli.play import ExportFlags
    from rsl_rl.runners.loading import load_policy
    from rsl_rl.utils.checkpoints import find_run

    run = find_run(experiment)
    place = ["--task", card.task, "--load_run", str(run), "--checkpoint", str(card.training.checkpoint)]
    args = parse(ExportFlags, "", from_run=True, argv=place)
    loaded = load_policy(args.cfg, build_parity_env(args.cfg), run, args.flags.checkpoint)
    folder = run / EXPORTED
    export(loaded, args.cfg, folder)
    if not (folder / ONNX).is_file():
        raise ValueError("the comparison needs policy.onnx; install the extra: pip install 'rsl-rl-lib[export]'")
    return folder / ONNX


def report(entry: Entry, onnx: Path, reasons: List[str], robot_hours: float) -> int:
    """Say whether two files are equal; evaluate others side by side."""
    card, found = entry.card, sha256_of(onnx)
    if found == card.sha256:
        print_line(f"equal: {onnx} has the SHA-256 of the card, {found}")
        return 0
    print_line(f"different: {onnx} has the SHA-256 {found}, and the card {card.sha256}")
    first, second = (network_of(path) for path in (entry.onnx, onnx))
    if first == second:
        print_line("the networks are equal, bit by bit; only the description in the file differs")
        return 1
    for reason in reasons:
        print_line(f"differs: {reason}")
    if not reasons:
        print_line("differs: nothing that a card names; the training is not deterministic here")
    done = card.evaluation
    sizes = {"num_envs": done.robots, "seconds": done.seconds, "num_seeds": len(done.seeds)}
    tests = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    tests += [*joystick_flags(robot_hours), "--report", "none"]
    evaluate.main(["--policy", str(entry.onnx), str(onnx), "--task", card.task, *tests])
    return 1


def network_of(path: Path) -> str:
    """Return the SHA-256 of the network in an exported ONNX file."""
    from rsl_rl.contracts.onnx_file import read_metadata

    return read_metadata(path).get("network_sha256", "")
