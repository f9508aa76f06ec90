"""The card of a policy for people: README.md in the folder of the entry, made of card.json."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, List, Sequence

from rsl_rl.utils.text import markdown_cell, one_line
from rsl_rl.zoo.card import Card

NO_WEAKNESS = "None are named; the tables above have what was measured."


def card_markdown(card: Card) -> str:
    """Return the card as Markdown; every text in it is shown as it is."""
    training, evaluation = card.training, card.evaluation
    parts = [
        f"# {markdown_cell(card.name)}",
        f"A policy of the task `{code(card.task)}` for the robot {markdown_cell(card.robot or 'of the task')}.",
        f"![{markdown_cell(card.robot or 'The robot')} walks]({card.film})" if card.film else "",
        f"```bash\nrsl-rl zoo play {card.name}\nrsl-rl zoo page {card.name}\nrsl-rl zoo reproduce {card.name}\n```",
        "## Training",
        f"```bash\n{one_line(training.command)}\n```",
        table(("what", "value"), training_rows(card)),
        "## Evaluation",
        f"{evaluation.robots} robots, {evaluation.seconds:g} s, seeds {', '.join(map(str, evaluation.seeds))}. "
        f"The gate is {'passed' if evaluation.gate_passed else 'missed'}.",
        table(("criterion", "measured", "limit"), gate_rows(card)) if evaluation.gate else "",
        table(("under a joystick", *evaluation.endurance), endurance_rows(card)) if evaluation.endurance else "",
        table(("disturbance", *DISTURBED), disturbance_rows(card)) if evaluation.disturbances else "",
        "\n".join(f"- {markdown_cell(line)}" for line in evaluation.warnings),
        "## Known weaknesses",
        "\n".join(f"- {markdown_cell(line)}" for line in card.known_weaknesses) or NO_WEAKNESS,
        "## Licence",
        markdown_cell(card.licence),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


DISTURBED = ("fall_rate", "lin_vel_error", "yaw_rate_error")
"""Metrics of an evaluation under disturbances."""


def training_rows(card: Card) -> Iterator[Sequence[str]]:
    training = card.training
    yield "Commit", training.commit or "not known"
    if training.changed_files:
        yield "Changed files", ", ".join(training.changed_files)
    yield "Date", training.date
    yield "Seed", str(training.seed)
    yield "Samples", f"{training.samples:,}"
    yield "Time", f"{training.seconds:.0f} s"
    yield "Checkpoint", str(training.checkpoint)
    yield "Engine", f"{training.engine} on {training.device}"
    yield "CPU", f"{training.cpu} ({training.instruction_set}), {training.threads} thread(s)"
    yield "Versions", ", ".join(f"{name} {version}" for name, version in training.versions.items())
    yield "SHA-256", card.sha256


def gate_rows(card: Card) -> Iterator[Sequence[str]]:
    for name, criterion in card.evaluation.gate.items():
        yield name, number(criterion.measured), number(criterion.limit)


def endurance_rows(card: Card) -> Iterator[List[str]]:
    tests = list(card.evaluation.endurance.values())
    yield ["robot-hours", *(number(test.robot_hours) for test in tests)]
    yield ["failures", *(str(test.failures) for test in tests)]
    yield ["hours between failures", *(hours(test.hours_between_failures) for test in tests)]
    yield ["95 % interval [h]", *(f"{number(low)} to {number(high)}" for low, high in (one.interval for one in tests))]
    yield ["error of velocity [m/s]", *(number(test.lin_vel_error) for test in tests)]
    yield ["error of yaw rate [rad/s]", *(number(test.yaw_rate_error) for test in tests)]


def disturbance_rows(card: Card) -> Iterator[List[str]]:
    for name, metrics in card.evaluation.disturbances.items():
        yield [name, *(number(metrics.get(metric)) for metric in DISTURBED)]


def number(value: Any) -> str:
    """Return a number as a text; "-" where it is not finite or was not measured."""
    return "-" if value is None else f"{value:.4g}"


def hours(value: Any) -> str:
    """Return hours between failures as a text."""
    return "no failure" if value is None else f"{value:.3g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    cells = ([cell if cell == "---" else markdown_cell(cell) for cell in line] for line in lines)
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def code(text: str) -> str:
    """Return a text for code in Markdown, which has no escapes."""
    return one_line(text).replace("`", "'")
