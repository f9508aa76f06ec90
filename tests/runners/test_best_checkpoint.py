"""The best policy of a training, kept by its score."""

from rsl_rl.runners.listeners import BestCheckpoint
from rsl_rl.utils.checkpoints import read_checkpoint, write_checkpoint


class Keeper:
    """A run folder whose best checkpoint is kept."""

    def __init__(self, folder, iteration=0):
        self.folder, self.said, self.full = folder, [], False
        self.now = iteration
        self.best = BestCheckpoint(folder, iteration, self.save, self.said.append)

    def save(self, path, infos):
        if self.full:
            raise OSError("No space left on device")
        write_checkpoint(path, {"model_state_dict": {}, "iter": self.now, "infos": infos})

    def save_if_better(self, iteration, value, **metrics):
        self.now = iteration
        self.best.save_if_better(iteration, {**metrics, "score": value})
        return read_checkpoint(self.folder / "model_best.pt")["iter"]


def test_the_best_is_the_first_with_the_lowest_score(tmp_path):
    keeper = Keeper(tmp_path)
    assert [keeper.save_if_better(i, value) for i, value in enumerate((3.0, 2.0, 2.0, 5.0, 1.0))] == [0, 1, 1, 1, 4]
    assert [line.split(",")[0] for line in keeper.said] == [f"best policy: iteration {i}" for i in (0, 1, 4)]


def test_an_evaluation_with_more_tests_is_better_than_one_that_ended_earlier(tmp_path):
    keeper = Keeper(tmp_path)
    assert keeper.save_if_better(1, 1.1, fall_rate=0.1) == 1
    assert keeper.save_if_better(2, 2.0, fall_rate=0.1, dead_zone=0.1) == 2
    assert keeper.save_if_better(3, 1.0, fall_rate=0.1) == 2
    resumed = Keeper(tmp_path, 3)
    assert resumed.save_if_better(4, 0.5, fall_rate=0.1) == 2
    assert resumed.save_if_better(5, 1.5, fall_rate=0.1, dead_zone=0.075) == 5


def test_a_full_disk_costs_a_line_and_leaves_the_best_before(tmp_path):
    keeper = Keeper(tmp_path)
    keeper.save_if_better(1, 3.0)
    keeper.full = True
    assert keeper.save_if_better(2, 1.0) == 1
    assert keeper.said[-1].startswith("warning: model_best.pt could not be saved (No space left")
    keeper.full = False
    assert keeper.save_if_better(3, 2.0) == 3  # what was lost is no hurdle


def test_the_best_so_far_is_known_from_the_file_unless_it_comes_later(tmp_path):
    Keeper(tmp_path).save_if_better(4, 2.0)
    assert Keeper(tmp_path, 4).save_if_better(6, 2.5) == 4
    assert Keeper(tmp_path, 3).save_if_better(5, 2.5) == 5
    (tmp_path / "model_best.pt").write_bytes(b"damaged")
    assert Keeper(tmp_path, 9).save_if_better(10, 7.0) == 10
