"""Plant faults between policies and simulated robots, and count what the doctor says about their logs.

    python -m benchmarks.doctor --folder FOLDER_OF_EXPORTS --faults 500 --pairs 100 --healthy 300 --out results.jsonl
    python -m benchmarks.doctor --table results.jsonl

FOLDER has a folder with policy.onnx for each policy. The doctor gets nothing but the log and policy.onnx.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.doctor_faults import MAKERS, fits, with_history
from benchmarks.doctor_robot import Setup, run
from deploy.onnx_policy import Policy, open_onnx
from rsl_rl.cli.doctor import find_model
from rsl_rl.evaluation.doctor import Diagnosis, diagnose, read_log


def one_log(name, description, network, kinds, seed, folder):
    """Let a robot walk with faults, ask the doctor, and return the result in plain values."""
    rng = np.random.default_rng(seed)
    if "history order" in kinds:
        description, network = with_history(description, network)
    setup = Setup(description=copy.deepcopy(dict(description)), network=network)
    planted = [MAKERS[kind](description, rng) for kind in kinds]
    for one in planted:
        one.plant(setup)
    path = Path(folder) / "log.csv"
    walked = run(description, setup, rng, path, episodes=2 if "memory" in kinds else 1)
    began = time.process_time()
    try:
        log = read_log(path, description)
        runner = Policy(description, network, log.joint_names)
        result = diagnose(log, runner, network, description, find_model(description))
    except ValueError as error:  # a log that the doctor refuses counts as not noticed
        result = Diagnosis((), (str(error),))
    return {
        "robot": name,
        "seed": seed,
        "kinds": list(kinds),
        "words": [list(one.words) for one in planted],
        "seconds": round(walked, 2),
        "named": [any(names(f, one) for f in result.findings) for one in planted],
        "others": [f.kind for f in result.findings if not any(names(f, one) for one in planted)],
        "noticed": bool(result.findings),
        "found": [
            {"kind": f.kind, "sentence": f.sentence, "evidence": f.evidence, "confidence": f.confidence}
            for f in result.findings
        ],
        "cpu_s": round(time.process_time() - began, 2),
        "notes": list(result.notes),
    }


def names(finding, planted):
    """Return whether a finding names a fault rightly."""
    return finding.kind in planted.accepted and all(word in finding.sentence for word in planted.words)


def plan(policies, args):
    """Return (policy, kinds, seed) of every log, kinds in turn over the robots."""
    rng, jobs, names = np.random.default_rng(args.seed), [], list(policies)
    kinds = [kind for kind in MAKERS if any(fits(kind, one) for one, _ in policies.values()) or kind == "history order"]
    only = args.only.split(",") if args.only else kinds

    def fitting(kind):
        return [name for name in names if fits(kind, policies[name][0]) or kind == "history order"]

    for i in range(args.faults):
        kind = only[i % len(only)]
        able = fitting(kind)
        jobs.append((able[(i // len(only)) % len(able)], (kind,)))
    for _ in range(args.pairs):
        first, second = rng.choice(
            [kind for kind in kinds if kind not in ("wrong robot", "memory", "history order")], 2, replace=False
        )
        able = [name for name in fitting(first) if name in fitting(second)]
        jobs.append((str(rng.choice(able)), (str(first), str(second))))
    jobs += [(names[i % len(names)], ()) for i in range(args.healthy)]
    numbered = [(name, kinds, args.seed * 100_000 + i) for i, (name, kinds) in enumerate(jobs)]
    return [numbered[i] for i in rng.permutation(len(numbered))]  # so that a part is like the whole


def share(number, of):
    return f"{number} ({number / of:.1%})" if of else "-"


def table(results):
    """Return the table by kind as lines of Markdown; "another too": a finding that names no planted fault rightly."""
    rows = defaultdict(list)
    for one in results:
        key = "healthy" if not one["kinds"] else one["kinds"][0] if len(one["kinds"]) == 1 else "pairs"
        rows[key].append(one)
    lines = ["| fault | logs | noticed | named right | another too |", "|---|---|---|---|---|"]
    for key in [*[kind for kind in MAKERS if kind in rows], "pairs", "healthy"]:
        own = rows.get(key, [])
        if not own:
            continue
        noticed, others = sum(one["noticed"] for one in own), sum(bool(one["others"]) for one in own)
        named = str(sum(all(one["named"]) for one in own))
        if key == "pairs":
            named = f"both {named}, at least one {sum(any(one['named']) for one in own)}"
        lines.append(f"| {key} | {len(own)} | {noticed} | {'-' if key == 'healthy' else named} | {others} |")
    faulty = [one for one in results if one["kinds"]]
    for text, logs in (
        ("all single faults", [one for one in faulty if len(one["kinds"]) == 1]),
        ("all logs with faults, pairs too", faulty),
    ):
        noticed, named = (sum(one["noticed"] for one in logs), sum(all(one["named"]) for one in logs))
        others = sum(bool(one["others"]) for one in logs)
        lines.append(f"| {text} | {len(logs)} | {share(noticed, len(logs))} | {share(named, len(logs))} | {others} |")
    planted = [named for one in faulty for named in one["named"]]
    lines += [
        "",
        f"Planted faults, those of pairs one by one: {len(planted)}, named right {share(sum(planted), len(planted))}.",
    ]
    return lines


def misses(results):
    """Return a line for each log that was not judged rightly."""
    return [
        f"{one['robot']} {one['seed']} {'+'.join(one['kinds']) or 'healthy'} {one['words']}: "
        + ("; ".join(f"{f['sentence']} ({f['confidence']})" for f in one["found"]) or "nothing found")
        for one in results
        if not all(one["named"]) or one["others"]
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="folder with exported policies, each in a folder of its own")
    parser.add_argument("--faults", type=int, default=500, help="logs with one fault")
    parser.add_argument("--pairs", type=int, default=100, help="logs with two faults")
    parser.add_argument("--healthy", type=int, default=300, help="logs without a fault")
    parser.add_argument("--only", help="kinds of faults, by comma; all without it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("I", "N"), help="only jobs I of N")
    parser.add_argument(
        "--out", type=Path, help="file of results, a JSON object a line; finished logs are not repeated"
    )
    parser.add_argument("--table", type=Path, nargs="+", help="print the table of files of results, and every miss")
    args = parser.parse_args()
    if args.table:
        results = [json.loads(line) for path in args.table for line in path.read_text().splitlines()]
        print("\n".join([*table(results), "", *misses(results)]))
        return 0
    policies = {path.parent.name: open_onnx(path) for path in sorted(args.folder.glob("*/policy.onnx"))}
    done = {json.loads(line)["seed"] for line in args.out.read_text().splitlines()} if args.out.exists() else set()
    jobs = plan(policies, args)[args.part[0] :: args.part[1]]
    with tempfile.TemporaryDirectory() as folder, args.out.open("a", buffering=1) as file:
        for name, kinds, seed in jobs:
            if seed not in done:
                file.write(json.dumps(one_log(name, *policies[name], kinds, seed, folder)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
