"""Run benchmarks, alone or against another library: `rsl-rl benchmark learner --peer PATH`.

Prints a table; the last line is JSON. Run nothing else at the same time.
"""

import json
import sys
from typing import Sequence

import tyro

from rsl_rl.cli.command_line import set_omp_spincount
from rsl_rl.cli.errors import one_line_errors, program, usage_errors
from rsl_rl.cli.experiments import import_shipped


def main(argv: Sequence[str]) -> int:
    sys.modules.setdefault("benchmarks", import_shipped("rsl_rl_benchmarks"))
    from benchmarks import collectives, faults, gpu, learner, scaling, simulator, training

    classes = {
        "learner": learner.Learner,
        "sim": simulator.Simulator,
        "train": training.Training,
        "faults": faults.Faults,
        "gpu": gpu.Gpu,
        "collectives": collectives.Collectives,
        "scaling": scaling.Scaling,
    }
    measures = {cls: sys.modules[cls.__module__].measure for cls in classes.values()}
    set_omp_spincount()  # for all workers
    try:
        with usage_errors():
            with one_line_errors():
                cfg = tyro.extras.subcommand_cli_from_dict(
                    classes, args=argv, description=__doc__, use_underscores=True
                )
            result = measures[type(cfg)](cfg)
    except RuntimeError as error:
        print(f"{program()}: failed: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 1 if result.get("failed") else 0
