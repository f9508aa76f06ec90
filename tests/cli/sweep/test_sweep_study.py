"""The trials of a sweep in their journal: order, claims, and what an interruption changes."""

import contextlib
import csv
import io
import math

import pytest

pytest.importorskip("optuna")

from rsl_rl.cli.sweep.command import Target, result_table
from rsl_rl.cli.sweep.search_space import Choices, Interval
from rsl_rl.cli.sweep.study import SweepSettings, SweepStudy
from rsl_rl.cli.trainings import summarize

SPACE = [
    Interval("lr", 1e-4, 1e-2, False, True),
    Interval("epochs", 2, 8, True, False),
    Choices("c", ("a", "b"), False),
]


def settings(**changes):
    default = SweepSettings(SPACE, 15, (1, 2), False, "tpe", 0, False)
    return default._replace(**changes)


def target(values, seed):
    """A target that has its maximum at a learning rate of 1e-3."""
    return -((math.log10(values["lr"]) + 3) ** 2) + 0.01 * seed


def work(study, trainings=10**6):
    """Do a number of trainings, or all that are left; return them."""
    done = []
    while len(done) < trainings:
        with study.claim() as assignment:
            if assignment is None:
                break
            study.record_target(assignment, target(assignment.values, assignment.seed))
            done.append(assignment)
    return done


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_study_that_is_opened_again_after_each_training_samples_as_one_that_is_not(tmp_path, sampler):
    whole = work(SweepStudy(tmp_path / "whole", settings(sampler=sampler)))
    assert [(one.trial, one.seed) for one in whole] == [(trial, seed) for trial in range(15) for seed in (1, 2)]
    cut = []
    while True:
        more = work(SweepStudy(tmp_path / "cut", settings(sampler=sampler)), trainings=1)
        cut += more
        if not more:
            break
    assert cut == whole
    assert len({tuple(one.values.values()) for one in whole}) == 15
    for values in (one.values for one in whole):
        assert 1e-4 <= values["lr"] <= 1e-2 and values["epochs"] in range(2, 9) and values["c"] in ("a", "b")


def test_tpe_learns_from_the_earlier_trials_and_random_does_not(tmp_path):
    errors = {}
    for sampler in ("tpe", "random"):
        done = work(SweepStudy(tmp_path / sampler, settings(trials=40, seeds=(0,), sampler=sampler)))
        errors[sampler] = [abs(math.log10(one.values["lr"]) + 3) for one in done]
    assert errors["tpe"][:10] == errors["random"][:10]  # the first trials are random
    assert sum(errors["tpe"][25:]) < 0.7 * sum(errors["random"][25:])


def test_training_that_was_not_recorded_is_claimed_again_by_the_next_process(tmp_path):
    study = SweepStudy(tmp_path, settings())
    with study.claim() as first:
        pass
    with SweepStudy(tmp_path, settings()).claim() as again:
        assert again == first and (again.trial, again.seed) == (0, 1)


def test_processes_at_work_share_the_trainings(tmp_path):
    studies = [SweepStudy(tmp_path, settings(trials=3)) for _ in range(7)]
    with contextlib.ExitStack() as stack:
        claimed = [stack.enter_context(study.claim()) for study in studies]
    pairs = [one and (one.trial, one.seed) for one in claimed]
    assert pairs == [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2), None]


def test_processes_at_work_wait_with_other_seeds_where_the_first_one_may_be_pruned(tmp_path):
    studies = [SweepStudy(tmp_path, settings(trials=3, prune=True)) for _ in range(4)]
    with contextlib.ExitStack() as stack:
        claimed = [stack.enter_context(study.claim()) for study in studies]
    assert [one and (one.trial, one.seed) for one in claimed] == [(0, 1), (1, 1), (2, 1), None]


def test_last_seed_completes_a_trial_with_the_mean(tmp_path):
    study = SweepStudy(tmp_path, settings(trials=1))
    work(study, trainings=1)
    (trial,) = study.results()
    assert trial.state == "running" and set(trial.targets) == {1}
    work(study)
    (trial,) = study.results()
    assert trial.state == "complete" and study._study.best_value == pytest.approx(sum(trial.targets.values()) / 2)


WEIGHT, SIGMA = "env.rewards.weights.action_rate", "env.rewards.tracking_sigma"
FORMER = [Choices(WEIGHT, ("-0.01", "-0.02"), False), Choices(SIGMA, ("0.2", "0.3"), False)]
SIGMAS = tuple(f"env.rewards.terms.{term}.params.tracking_sigma" for term in ("track_lin_vel", "track_yaw_rate"))
PRESENT = [
    Choices("env.rewards.terms.action_rate.weight", ("-0.01", "-0.02"), False),
    Choices(SIGMA, ("0.2", "0.3"), False, SIGMAS),
]


@pytest.mark.parametrize("trainings", [0, 1, 3, 4])
def test_grid_of_an_older_version_is_continued_and_not_repeated(tmp_path, trainings):
    grid, values = settings(trials=0, seeds=(1,), space=FORMER), []
    older = SweepStudy(tmp_path, grid)
    for number in range(trainings):
        with older.claim() as assignment:
            older.record_target(assignment, float(number))
            values.append([*assignment.values.values()])
    newer = SweepStudy(tmp_path, grid._replace(space=PRESENT))
    while True:
        with newer.claim() as assignment:
            if assignment is None:
                break
            assert [*assignment.values] == [parameter.field for parameter in PRESENT]
            newer.record_target(assignment, float(len(values)))
            values.append([*assignment.values.values()])
    assert values == [["-0.01", "0.2"], ["-0.01", "0.3"], ["-0.02", "0.2"], ["-0.02", "0.3"]]
    rows = result_table(newer.results(), newer.settings, Target("mean_reward", False)).rows
    assert [row[:3] for row in rows] == [[number, *values[number]] for number in (3, 2, 1, 0)]


def test_trials_of_an_older_version_are_continued_with_their_values(tmp_path):
    former, present = Interval(SIGMA, 0.1, 0.5, False, True), Interval(SIGMAS[0], 0.1, 0.5, False, True)
    with SweepStudy(tmp_path, settings(space=[former])).claim() as first:
        pass
    newer = SweepStudy(tmp_path, settings(space=[present]))
    with newer.claim() as again:
        assert again.values == {SIGMAS[0]: first.values[SIGMA]}
    assert newer.results()[0].values == again.values


def test_failed_seed_ends_its_trial_and_the_next_trial_follows(tmp_path):
    study = SweepStudy(tmp_path, settings(trials=2))
    with study.claim() as first, SweepStudy(tmp_path, settings(trials=2)).claim() as second:
        study.record_end(first, "no memory")
        study.record_target(second, 1.0)  # another process was training the second seed
    with study.claim() as third:
        assert (third.trial, third.seed) == (1, 1)
    (failed,) = (trial for trial in study.results() if trial.number == 0)
    assert failed.state == "failed" and failed.message == "seed 1: no memory"


def test_no_number_of_trials_means_every_combination_once(tmp_path):
    choices = [Choices("c", ("a", "b"), False), Choices("d", ("1", "2", "3"), False)]
    found = []
    while True:
        study = SweepStudy(tmp_path, settings(space=choices, trials=0, seeds=(1,)))
        with study.claim() as assignment:
            if assignment is None:
                break
            found.append(assignment.values)
            study.record_target(assignment, 1.0)
    assert found == [{"c": c, "d": d} for c in "ab" for d in "123"]


def test_space_without_parameters_is_one_trial(tmp_path):
    study = SweepStudy(tmp_path, settings(space=[], trials=0, seeds=(1, 2)))
    done = []
    while True:
        with study.claim() as assignment:
            if assignment is None:
                break
            done.append(assignment)
            study.record_target(assignment, 1.0)
    assert [(one.trial, one.seed) for one in done] == [(0, 1), (0, 2)]


def test_line_that_a_killed_process_has_not_finished_is_removed(tmp_path):
    work(SweepStudy(tmp_path, settings(trials=2)))
    journal = tmp_path / "study.journal"
    before = journal.read_bytes()
    journal.write_bytes(before + b'{"op_code": 4, "worker')
    assert [trial.state for trial in SweepStudy(tmp_path, settings(trials=2)).results()] == ["complete", "complete"]
    assert journal.read_bytes().startswith(before) and b"worker_id" in journal.read_bytes()[len(before) :]
    assert b'"worker\n' not in journal.read_bytes() and b'"worker{' not in journal.read_bytes()
    assert len(work(SweepStudy(tmp_path, settings(trials=3)))) == 2


def test_trial_worse_than_the_median_is_pruned_before_its_other_seeds(tmp_path):
    study = SweepStudy(tmp_path, settings(trials=6, prune=True))
    for number in range(6):
        with study.claim() as assignment:
            assert (assignment.trial, assignment.seed) == (number, 1)
            if number == 5:
                assert study.report(assignment, 10, 6.9)  # the median of the others is 7
                study.record_end(assignment, "worse", pruned=True)
                break
            assert not study.report(assignment, 10, 5.0 + number)
            study.record_target(assignment, 1.0)
        with study.claim() as second:
            assert (second.trial, second.seed) == (number, 2)
            study.record_target(second, 1.0)
    assert [trial.state for trial in study.results()] == ["complete"] * 5 + ["pruned"]
    assert work(study) == []


@pytest.mark.parametrize("minimize", [False, True])
def test_table_has_the_best_trial_first_and_the_interval_over_its_seeds(tmp_path, minimize):
    cfg = settings(trials=4, minimize=minimize)
    study = SweepStudy(tmp_path, cfg)
    with study.claim() as failed:
        study.record_end(failed, "no | memory")
    work(study)
    table = result_table(study.results(), cfg, Target("score", minimize))
    table.write(tmp_path / "sweep")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "sweep.csv").read_text())))
    means = [float(row["score"]) for row in rows[:3]]
    assert means == sorted(means, reverse=not minimize) and rows[3]["state"] == "failed"
    values = [float(rows[0][f"seed {seed}"]) for seed in (1, 2)]
    assert tuple(float(rows[0][name]) for name in ("score", "95 % from", "to")) == summarize(values)
    assert float(rows[0]["95 % from"]) <= means[0] <= float(rows[0]["to"])
    lines = (tmp_path / "sweep.md").read_text().splitlines()
    assert len(lines) == 6 and "seed 1: no &#124; memory" in lines[-1]


@pytest.mark.parametrize("end", ["complete", "failed", "pruned"])
def test_trial_of_a_process_killed_before_it_could_end_it_is_ended_by_the_next(tmp_path, monkeypatch, end):
    cfg = settings(trials=1, seeds=(1,))
    study = SweepStudy(tmp_path, cfg)

    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(study._study, "tell", killed)
    with study.claim() as assignment, pytest.raises(KeyboardInterrupt):
        if end == "complete":
            study.record_target(assignment, 3.0)
        else:
            study.record_end(assignment, "the reason", pruned=end == "pruned")
    later = SweepStudy(tmp_path, cfg)
    assert [trial.state for trial in later.results()] == ["running"]
    assert work(later) == []
    (trial,) = later.results()
    assert (trial.state, trial.message) == (end, "" if end == "complete" else "seed 1: the reason")
    if end == "complete":
        assert later._study.best_value == 3.0


@pytest.mark.parametrize(
    "line", [b"[" * 20_000, b"\xff\xfe", b"{}", b'{"op_code": 5, "worker_id": "x", "trial_id": 77}']
)
def test_damaged_journal_is_named(tmp_path, line):
    work(SweepStudy(tmp_path, settings(trials=1)))
    journal = tmp_path / "study.journal"
    lines = journal.read_bytes().splitlines()
    journal.write_bytes(b"\n".join([*lines[:2], line, *lines[2:]]) + b"\n")
    with pytest.raises(ValueError, match=f"{journal} is damaged.*restore it from a copy") as caught:
        SweepStudy(tmp_path, settings(trials=1))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["study.journal", "trials", "trials/0000_seed_1"])
def test_link_in_the_folder_of_a_sweep_is_refused_and_leads_to_no_other_file(tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "sweep" / "trials").mkdir(parents=True)
    elsewhere.mkdir() if "trials" in name else elsewhere.write_text("mine")
    if name == "trials":
        (tmp_path / "sweep" / "trials").rmdir()
    (tmp_path / "sweep" / name).symlink_to(elsewhere)
    with pytest.raises(OSError, match=f"{name} is a symbolic link"), SweepStudy(tmp_path / "sweep", settings()).claim():
        pass
    assert list(elsewhere.iterdir()) == [] if elsewhere.is_dir() else elsewhere.read_text() == "mine"
