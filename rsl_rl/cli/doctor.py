"""Say what is wrong between a policy and its robot: `rsl-rl doctor walk.csv exported/policy.onnx`.

Reads a log that OnnxPolicy("policy.onnx", log="walk.csv") has written, or a recording of ROS messages, computes
observations, actions and targets again from its readings, and predicts its motion with the model of the robot. Names
what differs, with evidence and a confidence, and the first boundary: reading, observation, action, target or motion.
The last line is JSON. The exit code is 0 if nothing is wrong, 1 if something is, and 2 for a log or a policy that
cannot be read.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from rsl_rl.cli.errors import FlagParser, fail, print_line, program, usage_errors
from rsl_rl.cli.evaluate import report_file
from rsl_rl.cli.experiments import import_shipped


def main(argv: Sequence[str]) -> int:
    parser = FlagParser(prog=program(), description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "log",
        type=Path,
        help="CSV file of the robot's runner, or a recording of ROS messages (.mcap, .db3, .bag, folder)",
    )
    parser.add_argument("policy", type=Path, help="policy.onnx that ran")
    parser.add_argument(
        "--description", type=Path, help="policy.json that the runner had, if it is not the policy's own"
    )
    parser.add_argument("--robot", type=Path, help="robot.yaml of rsl-rl bring-up that the runner had")
    parser.add_argument("--model", type=Path, help="MJCF file of the robot on a floor; the policy's own without it")
    parser.add_argument(
        "--topics",
        nargs="+",
        default=[],
        metavar="ROLE=TOPIC",
        help="topics of a recording: joints, targets, imu, command, odometry; those without doubt are found",
    )
    parser.add_argument("--fix", help="write the corrected mapping as a policy.json for OnnxPolicy(description=...)")
    parser.add_argument("--report", help="write a page (HTML) with plots")
    flags = parser.parse_args(argv)
    with usage_errors():
        report = None if flags.report is None else report_file(flags.report)
        fix = None if flags.fix is None else report_file(flags.fix)
        try:
            topics = dict(_pair(text) for text in flags.topics)
            return diagnose_file(
                flags.log, flags.policy, flags.description, flags.model, fix, report, topics, flags.robot
            )
        except ModuleNotFoundError as error:
            fail(f"{error.name} is not installed; install the extras: pip install 'rsl-rl-lib[sim,export]'")


def _pair(text: str) -> Tuple[str, str]:
    """Return role and topic of a text ROLE=TOPIC."""
    role, _, topic = text.partition("=")
    if not topic:
        raise ValueError(f"--topics {text}: give ROLE=TOPIC, such as targets=/joint_commands")
    return role, topic


def diagnose_file(
    log_path: Path,
    policy_path: Path,
    description_path: Optional[Path],
    model_path: Optional[Path],
    fix: Optional[Path],
    report: Optional[Path],
    topics: Mapping[str, str],
    robot: Optional[Path] = None,
) -> int:
    """Print a diagnosis, write the files that were asked for, and return the exit code."""
    from rsl_rl.evaluation.doctor import diagnose, lines, read_log, report_html
    from rsl_rl.evaluation.evaluate import finite
    from rsl_rl.utils.files import atomic_write

    deploy = import_shipped("rsl_rl_deploy.onnx_policy")
    own, network = deploy.open_onnx(policy_path)
    description = own if description_path is None else deploy.open_onnx(policy_path, description_path)[0]
    description = description if robot is None else deploy.with_robot(description, robot)[0]
    runner = deploy.Policy(description, network)  # which checks the description
    log = read_log(log_path, description, topics)
    runner = deploy.Policy(description, network, log.joint_names)
    model = find_model(description) if model_path is None else model_path
    if model_path is not None and not model_path.is_file():
        raise FileNotFoundError(f"no file {model_path}; give the MJCF file of the robot")
    result = diagnose(log, runner, network, description, model, own["joint_names"])
    for line in lines(result):
        print_line(line)
    if fix is not None:
        write_fix(fix, description, result)
    if report is not None:
        atomic_write(report, report_html(f"{log_path.name}: diagnosis", result).encode())
        print_line(f"report: {report}")
    found = [finding.as_json() for finding in result.findings]
    print(json.dumps(finite({"boundary": result.boundary, "findings": found, "notes": list(result.notes)})))
    return 1 if found else 0


def find_model(description: Mapping[str, Any]) -> Optional[Path]:
    """Return the model file of a policy: an absolute path, or one in a package; None if it is not there."""
    simulation = description.get("simulation")
    name = simulation.get("model") if isinstance(simulation, Mapping) else None
    package, _, rest = str(name or "").partition("/")
    if package in ("rsl_rl", "rsl_rl_zoo"):
        path = Path(str(import_shipped(package).__file__)).parent / rest
    else:
        path = Path(str(name or ""))
    return path if path.is_absolute() and path.is_file() else None


def read_description(contract: Path, robot: Optional[Path] = None) -> Dict[str, Any]:
    """Return the contract of a robot as a mapping, with the wiring of a robot.yaml if one is given."""
    from rsl_rl.contracts.contract import contract_json, contract_of
    from rsl_rl.contracts.formats import read_draft

    description = contract_json(read_draft(contract).contract())
    if robot is not None:
        wired = import_shipped("rsl_rl_deploy.onnx_policy").with_robot(description, robot)[0]
        description = contract_json(contract_of(wired))
    return description


def read_robot(contract: Path, model: Optional[Path], robot: Optional[Path] = None) -> Tuple[Dict[str, Any], Path]:
    """Return the contract of a robot as :func:`read_description`, and the model file."""
    description = read_description(contract, robot)
    path = find_model(description) if model is None else model
    if path is None:
        raise ValueError(f"{contract} names no model, or it is not on this machine; give the MJCF file with --model")
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; give the MJCF file of the robot")
    return description, path


def write_fix(path: Path, description: Mapping[str, Any], result: Any) -> None:
    """Write the corrected mapping, or say that there is none."""
    from rsl_rl.contracts import contract_of, write_contract
    from rsl_rl.contracts.contract import contract_json
    from rsl_rl.evaluation.doctor import fixed_description

    current: Dict[str, Any] = contract_json(contract_of(description))
    fixed = fixed_description(current, result.findings)
    if fixed is None:
        print_line("fix: none; no finding determines signs, zeros, order or mounting")
        return
    write_contract(contract_of(fixed), path)
    print_line(f"fix: {path}; give it to robot_loop.py or OnnxPolicy as the description, and log again")
