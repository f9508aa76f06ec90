"""Trained policies with cards: a first walk without training.

    rsl-rl zoo list
    rsl-rl zoo play go2_flat                      film it, with the flags of rsl-rl play, such as --viewer
    rsl-rl zoo page go2_flat walk.html            write a web page in which it walks
    rsl-rl zoo evaluate go2_flat --joystick       measure it, with the flags of rsl-rl evaluate
    rsl-rl zoo reproduce go2_flat                 train it again, and compare
    rsl-rl zoo add logs/go2_flat/RUN              make an entry of a finished run
    rsl-rl zoo film go2_flat                      make the film of its card again
    rsl-rl zoo push NAME USER/REPOSITORY          exchange entries with the Hugging Face Hub
    rsl-rl zoo pull USER/REPOSITORY [NAME ...]
    rsl-rl zoo schema                             print the JSON Schema of card.json

--zoo FOLDER names another zoo than that of the checkout or the installed package.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Sequence

from rsl_rl.cli.errors import FlagParser, print_line, program, usage_errors
from rsl_rl.cli.experiments import default_log_root, import_shipped
from rsl_rl.cli.tables import print_table
from rsl_rl.utils.text import printable

if TYPE_CHECKING:
    from rsl_rl.zoo.card import Card
    from rsl_rl.zoo.entries import Entry, Zoo

ROBOT_HOURS = 15.0
"""Default robot-hours of each joystick test of an entry."""


def main(argv: Sequence[str]) -> int:
    where = FlagParser(add_help=False, allow_abbrev=False)
    where.add_argument("--zoo", type=Path)
    known, words = where.parse_known_args(argv)  # at any place, also among the flags of play and evaluate
    flags = parser().parse_args(words)
    with usage_errors():
        from rsl_rl.zoo.entries import Zoo

        zoo = Zoo(Path(str(import_shipped("rsl_rl_zoo").__file__)).parent if known.zoo is None else known.zoo)
    return flags.run(zoo, flags)


def parser() -> FlagParser:
    own = FlagParser(prog=program(), description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = own.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Any, what: str, passes: str = "", named: bool = True) -> argparse.ArgumentParser:
        """Add a command; ``passes`` is the command whose flags it takes too."""
        added = commands.add_parser(name, help=what, description=what)
        if named:
            added.add_argument("name", help="policy of the zoo")
        if passes:
            help_of_rest = f"flags of rsl-rl {passes}"
            added.add_argument("rest", nargs=argparse.REMAINDER, metavar="FLAGS", help=help_of_rest)
        added.set_defaults(run=run)
        return added

    command("list", print_list, "print the policies and what was measured of them", named=False)
    command("play", play, "film a policy, or show it with --viewer or --page FILE", "play")
    command("page", write_page, "write a web page in which a policy walks: FILE, default NAME.html", "play")
    command("evaluate", evaluate, "measure a policy", "evaluate")
    again = command("reproduce", reproduce, "train a policy again by its card, and compare the SHA-256")
    again.add_argument("--log_root", type=Path, help="folder of the runs; default: logs/zoo")
    again.add_argument(
        "--robot_hours", type=float, default=ROBOT_HOURS, help="of each joystick test, if the files differ; 0: none"
    )
    new = command("add", add, "make an entry of a finished run: export it, evaluate it, write its card", named=False)
    new.add_argument("entry_of", metavar="RUN", type=Path, help="folder of the run")
    new.add_argument("--name", default="", help="name of the entry; default: that of the task")
    new.add_argument("--checkpoint", default="-1", help="iteration, or best; default: the newest")
    new.add_argument("--licence", required=True, help="licence of the policy, such as BSD-3-Clause")
    new.add_argument("--weakness", action="append", default=[], help="sentence on what it does badly; may be repeated")
    new.add_argument("--num_envs", type=int, default=256, help="robots of an evaluation (default: 256)")
    new.add_argument("--seconds", type=float, default=20.0, help="length of an evaluation (default: 20)")
    new.add_argument("--num_seeds", type=int, default=3, help="evaluations (default: 3)")
    new.add_argument(
        "--robot_hours", type=float, default=ROBOT_HOURS, help="of each joystick test (default: 15); 0: none"
    )
    new.add_argument("--no_film", action="store_true", help="make no film, which takes a quarter of a minute")
    new.add_argument("--replace", action="store_true", help="replace an entry of this name")
    command("film", film, "make the film of a card, again if there is one")
    up = command("push", push, "upload an entry to a repository of the Hugging Face Hub")
    up.add_argument("repository", help="such as user/zoo")
    up.add_argument("--private", action="store_true", help="create a private repository if there is none")
    down = command("pull", pull, "download entries from a repository of the Hugging Face Hub", named=False)
    down.add_argument("repository", help="such as user/zoo")
    down.add_argument("names", nargs="*", help="entries; default: print those of the repository")
    down.add_argument("--replace", action="store_true", help="replace entries of these names")
    command("schema", print_schema, "print the JSON Schema of card.json", named=False)
    return own


def print_list(zoo: "Zoo", flags: argparse.Namespace) -> int:
    """Print a line for each policy; a damaged one is named, and the exit code is 1."""
    from rsl_rl.zoo.entries import read_entry

    rows, damaged = [LIST_COLUMNS], []
    for name in zoo.names():
        try:
            rows.append(list_cells(read_entry(zoo.folder / name)))
        except (ValueError, OSError) as error:
            damaged.append(str(error))
    print_table("", rows)
    if len(rows) == 1:
        print(f"{zoo.folder} has no policies; add one: rsl-rl zoo add RUN")
    for line in damaged:
        print_line(line)
    return 1 if damaged else 0


LIST_COLUMNS: Sequence[str] = (
    *("name", "robot", "samples", "time [s]", "gate", "hours to failure", "with pushes", "film", "size [kB]"),
)


def list_cells(entry: "Entry") -> Sequence[str]:
    """Return a row of the table with LIST_COLUMNS."""
    card = entry.card
    tests = [card.evaluation.endurance.get(name) for name in ("without pushes", "with pushes")]
    return (
        *(
            card.name,
            printable(short_name(card.robot)),
            f"{card.training.samples / 1e6:.1f} M",
            f"{card.training.seconds:.0f}",
        ),
        "passed" if card.evaluation.gate_passed else f"{len(card.evaluation.unmet)} missed",
        *(hours_of(test) for test in tests),
        "yes" if card.film else "-",
        f"{entry.size / 1000:.0f}",
    )


def short_name(robot: str) -> str:
    """Return the name of a robot, or of the package in which an adopted one is."""
    module, colon, _ = robot.partition(":")
    return module.split(".")[-2 if module.count(".") else 0] if colon else robot


def hours_of(test: Any) -> str:
    """Return the hours between failures as a text."""
    if test is None:
        return "-"
    return f"{test.hours_between_failures:.3g}" if test.hours_between_failures else f"> {test.robot_hours:.3g}"


def find(zoo: "Zoo", name: str) -> "Entry":
    """Return an entry whose task is there; what is wrong with it ends the program."""
    from rsl_rl.cli.experiments import Experiments

    with usage_errors():
        entry = zoo.find(name)
        Experiments().load(entry.card.task)
    return entry


def policy_flags(entry: "Entry", rest: Sequence[str]) -> List[str]:
    """Return the flags with which a command runs the policy of an entry."""
    return ["--policy", str(entry.onnx), "--task", entry.card.task, *rest]


def play(zoo: "Zoo", flags: argparse.Namespace) -> int:
    """Film one robot for 3 s, or show it; flags change that. The film is written into logs/zoo/NAME."""
    from rsl_rl.cli import play as player
    from rsl_rl.cli.command_line import parse

    entry = find(zoo, flags.name)
    rest = player.split_commas(flags.rest)
    given = {word.partition("=")[0].replace("-", "_") for word in rest if word.startswith("--")}
    if not {"__viewer", "__page"} & given:
        folder = str(default_log_root() / "zoo" / entry.card.name)
        for flag, value in {"folder": folder, "num_envs": "1", "seconds": "3"}.items():
            rest += [] if f"__{flag}" in given else [f"--{flag}", value]
        rest += [] if {"__plot", "__no_plot"} & given else ["--no_plot"]
        rest += [] if {"__command", "__commands"} & given else ["--command", "0.5", "0", "0"]
    args = parse(player.Flags, player.__doc__ or "", from_run=False, argv=policy_flags(entry, rest))
    return player.play_policy(args, facts_of(entry.card))


def write_page(zoo: "Zoo", flags: argparse.Namespace) -> int:
    words = list(flags.rest)
    path = words.pop(0) if words and not words[0].startswith("-") else f"{flags.name}.html"
    flags.rest = ["--page", path, *words]
    return play(zoo, flags)


def facts_of(card: "Card") -> Any:
    """Return the lines of a card in a page."""
    from rsl_rl.zoo.readme import hours, number

    evaluation = card.evaluation
    facts = {
        "Task": card.task,
        "Seed": str(card.training.seed),
        "Samples": f"{card.training.samples:,} in {card.training.seconds:.0f} s",
        "CPU": card.training.cpu,
        "Gate": ", ".join(f"{name} {number(one.measured)} of {one.limit:g}" for name, one in evaluation.gate.items()),
        "Endurance": "; ".join(
            f"{hours(test.hours_between_failures)} h between failures {name} in {test.robot_hours:.3g} h"
            for name, test in evaluation.endurance.items()
        ),
        "Known weaknesses": " ".join(card.known_weaknesses),
        "Licence": card.licence,
    }
    return {name: value for name, value in facts.items() if value}


def evaluate(zoo: "Zoo", flags: argparse.Namespace) -> int:
    from rsl_rl.cli import evaluate as evaluator

    return evaluator.main(policy_flags(find(zoo, flags.name), flags.rest))


def reproduce(zoo: "Zoo", flags: argparse.Namespace) -> int:
    from rsl_rl.cli.zoo.reproduction import reproduce_entry

    return reproduce_entry(find(zoo, flags.name), flags)


def add(zoo: "Zoo", flags: argparse.Namespace) -> int:
    from rsl_rl.cli.zoo.addition import add_entry

    return add_entry(zoo, flags)


def film(zoo: "Zoo", flags: argparse.Namespace) -> int:
    from rsl_rl.cli.zoo.addition import add_film

    return add_film(find(zoo, flags.name))


def push(zoo: "Zoo", flags: argparse.Namespace) -> int:
    with usage_errors():
        hub, entry = import_hub(), zoo.find(flags.name)
        print(f"pushed {entry.card.name}: {hub.push(entry, flags.repository, flags.private)}")
    return 0


def pull(zoo: "Zoo", flags: argparse.Namespace) -> int:
    with usage_errors():
        hub = import_hub()
        if not flags.names:
            print(f"{flags.repository} has {', '.join(hub.names_in(flags.repository)) or 'no policies'}")
        for name in flags.names:
            card = hub.pull(flags.repository, name, zoo, flags.replace)
            print_line(f"pulled {zoo.folder / card.name} (licence: {card.licence})")
    return 0


def import_hub() -> Any:
    """Import what talks to the Hub; without its package, a line says what to install."""
    try:
        from rsl_rl.zoo import hub
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}; install the extra: pip install 'rsl-rl-lib[hub]'") from error
    return hub


def print_schema(zoo: "Zoo", flags: argparse.Namespace) -> int:
    from rsl_rl.zoo.card import card_schema

    print(json.dumps(card_schema(), indent=2))
    return 0
