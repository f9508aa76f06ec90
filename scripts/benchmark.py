"""Run benchmarks, alone or against another library: `python scripts/benchmark.py learner --peer PATH`.

Prints a table; the last line is JSON. Run nothing else at the same time.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tyro

from benchmarks import faults, gpu, learner, simulator, training
from scripts.command_line import one_line_errors, set_omp_spincount, usage_errors

BENCHMARKS = {
    "learner": learner.Learner,
    "sim": simulator.Simulator,
    "train": training.Training,
    "faults": faults.Faults,
    "gpu": gpu.Gpu,
}
MEASURE = {
    learner.Learner: learner.measure,
    simulator.Simulator: simulator.measure,
    training.Training: training.measure,
    faults.Faults: faults.measure,
    gpu.Gpu: gpu.measure,
}


def main() -> int:
    set_omp_spincount()  # for all workers
    try:
        with usage_errors():
            with one_line_errors():
                cfg = tyro.extras.subcommand_cli_from_dict(BENCHMARKS, description=__doc__, use_underscores=True)
            result = MEASURE[type(cfg)](cfg)
    except RuntimeError as error:
        print(f"benchmark.py: failed: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 1 if result.get("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
