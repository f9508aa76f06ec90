"""The bookkeeping of graphed functions, with a recording that runs on the CPU; tests/runners/test_cuda.py has the real
one."""

import torch

from rsl_rl.acceleration.cuda_graph import GraphedFunction, Recording, own_tensors
from rsl_rl.config.algorithm import DistillationConfig

CPU = torch.device("cpu")


class CountingGraph(GraphedFunction):
    """Records by calling the function again at each replay, into the same result tensors."""

    num_recordings = 0

    def _run_aside(self, arguments):
        return self._function(*arguments)

    def _record(self, arguments):
        self.num_recordings += 1
        inputs, own_arguments = own_tensors(arguments)
        result = torch.empty_like(own_arguments[0])
        return Recording(inputs, result, lambda: result.copy_(self._function(*own_arguments)))


def test_graphed_function_after_warm_up_calls_replays_one_recording():
    double = CountingGraph(lambda x, scale: x * 2 * scale, CPU)
    results = [double(torch.full((3,), float(i)), torch.ones(())) for i in range(6)]
    assert double.num_recordings == 1
    assert [r[0].item() for r in results[:3]] == [0, 2, 4]  # each result its own
    assert results[3] is results[4] is results[5] and results[5][0].item() == 10


def test_graphed_function_with_other_shapes_or_constants_records_again():
    double = CountingGraph(lambda x, missing: x * 2, CPU)
    for size in (2, 3):
        for _ in range(5):
            assert double(torch.ones(size), None).tolist() == [2.0] * size
    assert double.num_recordings == 2
    for _ in range(5):
        double(torch.ones(2), (None, torch.ones(1)))
    assert double.num_recordings == 3


def test_graphed_function_when_replayed_reads_a_copy_of_its_arguments():
    double = CountingGraph(lambda x, scale: x * scale, CPU)
    x, scale = torch.ones(2), torch.ones(())
    for _ in range(4):
        double(x, scale)
    x.fill_(7.0)
    assert double(torch.full((2,), 3.0), scale).tolist() == [3.0, 3.0]
    assert x.tolist() == [7.0, 7.0]


def test_graphed_function_takes_configs_that_have_no_hash_and_records_for_each():
    scaled = CountingGraph(lambda x, cfg: x * cfg.teacher_share, CPU)
    for share in (0.5, 0.25):
        cfg = DistillationConfig(teacher_share=share)
        for _ in range(5):
            assert scaled(torch.ones(2), cfg).tolist() == [share] * 2
    assert scaled.num_recordings == 2
