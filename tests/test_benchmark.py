"""The benchmark's own promises; what it measures is in benchmarks/README.md, and no test asserts a time."""

import json

import pytest

from benchmarks.pairing import compare

SMALL = ("--num_envs", "8", "--num_steps", "4", "--hidden_dims", "8", "--rnn_hidden_size", "8", "--repeats", "2")


@pytest.mark.parametrize("policy", ["mlp", "gru", "lstm"])
def test_it_prints_a_table_and_ends_with_json(run_script, policy):
    done = run_script("scripts/benchmark.py", "learner", *SMALL, "--policy", policy)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert set(result["medians"]["ours"]) == {"collect", "returns", "update", "peak_mb"} and result["ratios"] == {}
    assert result["settings"]["policy"] == policy and result["update_samples_per_s"] > 0
    assert "8 environments x 4 steps" in done.stdout


@pytest.mark.parametrize("policy", ["mlp", "lstm"])
def test_a_peer_takes_turns_with_us(run_script, policy, peer):
    done = run_script("scripts/benchmark.py", "learner", *SMALL, "--policy", policy, "--peer", str(peer))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert set(result["medians"]) == {"ours", "peer"}
    ratio = result["ratios"]["update"]
    assert 0 < ratio["low"] <= ratio["median"] <= ratio["high"]


def test_ratios_are_taken_pair_by_pair():
    runs = {
        "ours": [{"update": 1.0}, {"update": 2.0}, {"update": 1.0}],
        "peer": [{"update": t} for t in (2.0, 4.0, 5.0)],
    }
    figures, ratios = compare(runs)
    assert figures["peer"]["update"] == (4.0, 2.0, 5.0) and ratios["update"] == (2.0, 2.0, 5.0)
    assert compare({"ours": runs["ours"]})[1] == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("learner", "--num_envs", "0"), "--num_envs 0: give a whole number of at least 1"),
        (("learner", "--warm_up", "-1"), "--warm_up -1: give a whole number of at least 0"),
        (("learner", "--done_rate", "2"), "--done_rate 2.0 must lie in [0, 1]"),
        (("learner", "--policy", "rnn"), "'rnn'"),
        (("learner", "--peer", "nowhere"), "pip install --no-deps --target nowhere rsl-rl-lib"),
        (("learner", "--num_envs", "2", "--policy", "gru"), "2 environments for num_mini_batches=4"),
        (("walk",), "walk"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run_script, arguments, words):
    done = run_script("scripts/benchmark.py", *arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert words in done.stderr and len(done.stderr.strip().splitlines()) == 1
