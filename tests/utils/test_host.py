import os

import pytest

from rsl_rl.utils.host import available_cpus


@pytest.mark.parametrize(
    ("cpu_max", "expected"), [("150000 100000", 1), ("20000 100000", 1), ("6400000 100000", None), ("max 100000", None)]
)
def test_a_containers_quota_limits_the_cpus(tmp_path, cpu_max, expected):
    (tmp_path / "cpu.max").write_text(cpu_max + "\n")
    own = len(os.sched_getaffinity(0))
    assert available_cpus(tmp_path / "cpu.max") == (expected or own)
    assert available_cpus(tmp_path / "missing") == own


@pytest.mark.parametrize(("given", "expected"), [("", 16), ("30", 30)])
def test_threads_are_few_unless_the_user_says_otherwise(run_script, given, expected):
    code = (
        "import torch; from rsl_rl.utils import host; torch.set_num_threads(30); "
        "host.available_cpus = lambda: 64; host.prepare_host(); print(torch.get_num_threads())"
    )
    done = run_script("-c", code, **({"OMP_NUM_THREADS": given} if given else {}))
    assert done.returncode == 0 and int(done.stdout) == expected, done.stderr
