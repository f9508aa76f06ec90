"""Show, convert and compare the contracts of policies: what they need to know of their robot.

    rsl-rl contract show policy.onnx deploy.yaml
    rsl-rl contract convert deploy.yaml policy.json --set robot=go2 --set torque_limits=[23.7,...]
    rsl-rl contract diff policy.json deploy.yaml --set robot=go2

Formats: policy.json (also in the metadata of policy.onnx), unitree_rl_lab (deploy.yaml), unitree_rl_gym (deploy
configs), mjlab (ONNX metadata), isaac_lab (IO_descriptors.yaml with env.yaml) and legged_gym (a config class).
--set FIELD=VALUE gives what a file does not say; the value is JSON or a text, and for fields with a value for each
joint also a JSON object with regular expressions of joint names. Nothing is guessed.

show ends with exit code 1 if a needed field is missing, and diff if there is a difference.
"""

import argparse
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rsl_rl.cli.errors import FlagParser, program, usage_errors
from rsl_rl.cli.experiments import import_shipped

if TYPE_CHECKING:
    from rsl_rl.contracts.contract import Contract


def main(argv: Sequence[str]) -> int:
    parser = FlagParser(prog=program(), description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="show|convert|diff|schema")
    for name, what, files in (
        ("show", "print each field and where it came from", "+"),
        ("convert", "write a contract in another format", None),
        ("diff", "name the differences of two contracts", 2),
    ):
        own = commands.add_parser(name, help=what)
        if files is not None:
            own.add_argument("files", nargs=files, type=Path, help="contracts of any format")
        else:
            own.add_argument("source", type=Path, help="contract of any format")
            own.add_argument("target", type=Path, help="file to write; it must not exist")
            own.add_argument("--to", default="policy.json", metavar="FORMAT", help="format (default: policy.json)")
            own.add_argument("--network", type=Path, help="network of the policy, which the contract then names")
        own.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="give a field a value")
    commands.add_parser("schema", help="print the JSON Schema of policy.json")
    flags = parser.parse_args(argv)
    with usage_errors():
        if flags.command == "schema":
            from rsl_rl.contracts.schema import schema

            print(json.dumps(schema(), indent=2))
            return 0
        given = given_fields(flags.set)
        if flags.command == "show":
            return max([show(path, given) for path in flags.files])
        return convert(flags, given) if flags.command == "convert" else diff(flags.files, given)


def given_fields(settings: Sequence[str]) -> Dict[str, Any]:
    """Return the fields of --set; a value that is not JSON is a text."""
    given: Dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting}: give FIELD=VALUE")
        try:
            given[name] = json.loads(value)
        except (ValueError, RecursionError):
            given[name] = value
    return given


def network_checksum(path: Path) -> str:
    """Return the SHA-256 by which a contract names a network."""
    content = path.read_bytes()
    if path.suffix != ".onnx":
        return hashlib.sha256(content).hexdigest()
    return import_shipped("rsl_rl_deploy.onnx_policy").network_sha256(content)


def check_network(path: Path, contract: "Contract", where: Path) -> None:
    """Raise a ValueError if the contract in the file ``where`` names another network.

    A TorchScript file that was exported with an ONNX file shares its contract.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    files = [file for file in (path, path.with_suffix(".onnx")) if file.is_file()]
    if contract.network_sha256 and contract.network_sha256 not in map(network_checksum, files):
        raise ValueError(f"{where} describes another network: its network_sha256 is not that of {path}")


def show(path: Path, given: Dict[str, Any]) -> int:
    """Print the fields of a contract; return 1 if needed ones are missing, else 0."""
    from rsl_rl.contracts.draft import FIELDS
    from rsl_rl.contracts.formats import read_draft
    from rsl_rl.utils.config_io import short_repr

    draft = read_draft(path, given)
    if not draft.missing:
        draft.contract()  # what contradicts itself is an error
    print(f"{path} ({draft.kind})")
    table = Table()
    for head in ("field", "value", "from"):
        table.add_column(head, overflow="fold")
    for name in FIELDS:
        if name in draft.values:
            table.add_row(*map(Text, (name, short_repr(draft.values[name]), draft.sources[name])))
    Console().print(table)
    for name in draft.missing:
        print(f"missing: {name}; give --set {name}=VALUE")
    return int(bool(draft.missing))


def convert(flags: argparse.Namespace, given: Dict[str, Any]) -> int:
    """Write a contract in another format, and say what is lost."""
    from rsl_rl.contracts.formats import format_of, read_draft

    if flags.target.exists() or flags.target.is_symlink():
        raise ValueError(f"{flags.target} exists; name a new file")
    if not flags.target.parent.is_dir():
        raise ValueError(f"there is no folder {flags.target.parent}")
    writer, contract = format_of(flags.to), read_draft(flags.source, given).contract()
    if flags.network is not None:
        check_network(flags.network, contract, flags.source)
        contract = replace(contract, network_sha256=network_checksum(flags.network))
    lost: List[str] = writer.write(contract, flags.target, flags.network)
    print(f"{flags.target}: {flags.source} as {flags.to}")
    if lost:
        print(f"not carried by {flags.to}: {', '.join(lost)}")
    return 0


def diff(files: Sequence[Path], given: Dict[str, Any]) -> int:
    """Print the differences of two contracts; return 1 if there are any, else 0."""
    from rsl_rl.contracts.differences import differences
    from rsl_rl.contracts.formats import read_draft

    first, second = (read_draft(path, given).contract() for path in files)
    found = differences(first, second)
    for line in found or ["no difference"]:
        print(line)
    return int(bool(found))
