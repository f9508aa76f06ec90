"""Numbers of several ranks as those of one iteration."""

from rsl_rl.distributed import SINGLE_PROCESS
from rsl_rl.runners.iteration_record import IterationClock, RankNumbers, merge


def test_merge_adds_counts_and_names_the_times_of_each_rank():
    first = RankNumbers({"faults/reward": 2.0}, {"return": [3.0, 1.0]}, {"collect_s": 1.0, "communication/host_s": 0.5})
    second = RankNumbers(
        {"faults/reward": 1.0, "faults/slip": 4.0},
        {"return": [5.0, 2.0], "episode/x": [1.0, 1.0]},
        {"collect_s": 2.0, "communication/host_s": 0.25, "communication/gradients_s": 0.5},
    )
    together = merge([first, second])
    assert together.faults == {"faults/reward": 3.0, "faults/slip": 4.0}
    assert together.sums == {"return": [8.0, 3.0], "episode/x": [1.0, 1.0]}
    assert together.times == {
        "ranks/collect_s_0": 1.0,
        "ranks/communication_s_0": 0.5,
        "ranks/collect_s_1": 2.0,
        "ranks/communication_s_1": 0.75,
        "communication/host_s": 0.5,
    }


def test_clock_of_a_single_process_has_phases_and_no_times_of_ranks():
    clock = IterationClock(SINGLE_PROCESS)
    clock.start()
    clock.finish_phase("collect_s")
    clock.finish_phase("learn_s")
    assert list(clock.phases) == ["collect_s", "learn_s"] and clock.total == sum(clock.phases.values()) > 0
    faults, sums = {"faults/reward": 1.0}, {"return": [1.0, 1.0]}
    assert clock.share(faults, sums) == RankNumbers(faults, sums, {})
