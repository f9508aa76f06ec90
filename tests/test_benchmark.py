"""The benchmark's own promises; what it measures is in benchmarks/README.md, and no test asserts a time."""

import contextlib
import json
import math
from dataclasses import replace
from typing import get_args

import pytest
import torch

from benchmarks import collectives, gpu, products, scaling, sparse_solver
from benchmarks.faults import Kind, complaints, endings, summary
from benchmarks.faulty_point import KINDS
from benchmarks.pairing import Spread, Worker, alternate, ratios, spreads
from benchmarks.phases import Phases
from benchmarks.training import as_arguments, estimate, first_pass, progress
from benchmarks.unprotected import unprotected
from configs.go2_flat import Go2Flat
from rsl_rl.acceleration.products import library
from rsl_rl.cli.command_line import _expand
from rsl_rl.cli.config_flags import parse_config
from rsl_rl.cli.train import Flags
from rsl_rl.modules import ActorCritic
from rsl_rl.runners import OnPolicyRunner

SMALL = ("--num_steps", "4", "--hidden_dims", "8", "--rnn_hidden_size", "8", "--repeats", "2")

TINY_TRAINING = (
    "--every", "2", "--num_robots", "4", "--seconds", "0.1",
    "--overrides", "num_envs=16", "max_iterations=3", "runner.num_steps_per_env=8",
    "policy.actor_hidden_dims=16 16", "policy.critic_hidden_dims=16",
)  # fmt: skip


def test_sparse_solver_of_small_models_agrees_and_large_ones_are_told(capsys):
    assert sparse_solver.main(["--states", "3", "--copies", "1", "4"]) == 0
    results = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert results["go2 x 1"]["taken"] == "dense" and results["go2 x 1"]["largest_difference"] < 1e-9
    assert results["go2 x 4"]["taken"] == "sparse" and results["go2 x 4"]["degrees_of_freedom"] == 72


def test_the_second_of_two_iterations_is_timed_phase_by_phase(monkeypatch):
    done, clock = [], [0.0]
    monkeypatch.setattr("benchmarks.phases.time.perf_counter", lambda: clock[0])

    def phase(name):
        def run():
            done.append(name)
            clock[0] += len(done)  # each takes longer than the one before

        return run

    phases = Phases("cpu", *map(phase, ("collect", "gae", "update")), products=phase("products"))
    figures = phases()
    assert done == 2 * ["collect", "gae", "update", "products"]
    assert figures == {"collect": 5, "gae": 6, "update": 7, "products": 8, "update_flops": 0}


def result_of(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def flops_by_hand(policy, num_samples, ours=True):
    """Two for each weight and sample: forward, for the weight's gradient, and, behind the first layer, the input's.

    Ours has the sums for the gradients of biases, of hidden layers and heads, as products too.
    """
    size = 8
    gates = {"mlp": 0, "gru": 3, "lstm": 4}[policy]
    first, rest = size * (gates or 1) * 48, gates * size * size + (size * size if gates else 0)
    actor, critic = first + rest + size * 12, first + rest + size
    biases = 2 * size + 12 + 1 if ours else 0
    return 2 * num_samples * (3 * (actor + critic) - 2 * first + biases)


@pytest.mark.slow
def test_a_learner_is_timed_phase_by_phase(run_script):
    done = run_script("scripts/benchmark.py", "learner", "--num_envs", "8", *SMALL, "--policy", "gru")
    result = result_of(done)
    (entry,) = result["results"]
    figures = entry["figures"]["ours"]
    assert set(figures) == {"collect", "gae", "update", "peak_mb", "update_gflops", "update_share"}
    assert figures["gae"]["median"] > 0 and entry["ratios"] == {}
    assert entry["update_flops"] == {"ours": flops_by_hand("gru", 5 * 8 * 4)}
    speed = figures["update_gflops"]["median"]
    assert figures["update_share"]["median"] == pytest.approx(speed / result["matmul_peak_gflops"])
    assert result["settings"]["policy"] == "gru" and entry["update_samples_per_s"] > 0
    assert "8 environments x 4 steps" in done.stdout


@pytest.mark.slow
def test_a_peer_takes_turns_with_us_and_both_are_drawn(run_script, peer, tmp_path):
    picture = tmp_path / "growth.png"
    arguments = ("learner", "--num_envs", "16", "8", *SMALL, "--peer", str(peer), "--plot", str(picture))
    result = result_of(run_script("scripts/benchmark.py", *arguments))
    assert [entry["num_envs"] for entry in result["results"]] == [16, 8]
    for entry in result["results"]:
        num_samples = 5 * entry["num_envs"] * 4
        assert entry["update_flops"] == {
            who: flops_by_hand("mlp", num_samples, who == "ours") for who in ("ours", "peer")
        }
        assert set(entry["ratios"]) == set(entry["figures"]["ours"])
        assert entry["ratios"]["products"]["median"] > entry["ratios"]["collect"]["median"] > 0
        ratio = entry["ratios"]["gae"]
        assert 0 < ratio["low"] <= ratio["median"] <= ratio["high"]
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000
    assert list(tmp_path.iterdir()) == [picture]


@pytest.mark.slow
def test_what_cannot_be_counted_is_left_out(run_script, peer):
    """torch's fused LSTM hides its products, and ours does not."""
    arguments = ("learner", "--num_envs", "8", *SMALL, "--policy", "lstm", "--peer", str(peer))
    (entry,) = result_of(run_script("scripts/benchmark.py", *arguments))["results"]
    flops = flops_by_hand("lstm", 5 * 8 * 4)
    assert entry["update_flops"] == {"ours": pytest.approx(flops, rel=0.02), "peer": None}
    assert "update_gflops" not in entry["figures"]["peer"]
    assert set(entry["ratios"]) == {"collect", "gae", "update", "peak_mb"}


@pytest.mark.slow
def test_engines_and_numbers_of_robots_take_turns(run_script):
    arguments = ("sim", "--num_envs", "4", "8", "--seconds", "0.05", "--repeats", "2")
    result = result_of(run_script("scripts/benchmark.py", *arguments))
    assert [(entry["backend"], entry["num_envs"]) for entry in result["results"]] == [("mujoco", 4), ("mujoco", 8)]
    for entry in result["results"]:
        steps, real_time = entry["env_steps_per_s"], entry["times_real_time"]
        assert 0 < steps["low"] <= steps["median"] <= steps["high"]
        assert real_time["median"] == pytest.approx(0.02 * steps["median"])


@pytest.mark.parametrize("limit", [pytest.param(9, marks=pytest.mark.slow), 0])
def test_a_training_is_timed_until_its_gate(run_script, root, limit):
    before = set((root / "logs").glob("benchmark_*"))
    gate = (f"env.gate.{name}={limit}" for name in ("fall_rate", "lin_vel_error", "yaw_rate_error"))
    done = run_script("scripts/benchmark.py", "train", "--seeds", "5", *TINY_TRAINING, *gate)
    result = result_of(done)
    (run,) = result["runs"]
    assert run["seed"] == 5 and run["env_steps"] == 3 * 8 * 16 and run["wall_s"] > 0
    times = result["means"]["seconds_to_gate"]
    if limit:
        assert run["iteration"] == 2 and run["steps_to_gate"] == 2 * 8 * 16 and result["reached"] == 1
        assert 0 < run["seconds_to_gate"] == times["mean"] and times["low"] is None
        assert "iteration 2 passes" in done.stdout and "iteration 3" not in done.stdout
    else:
        assert run["iteration"] is run["seconds_to_gate"] is run["steps_to_gate"] is times["mean"] is None
        assert "iteration 3 misses" in done.stdout and "0 of 1 trainings reached the gate" in done.stdout
        assert "not reached" in done.stdout
    assert set((root / "logs").glob("benchmark_*")) == before


def test_the_interval_of_a_mean_is_students():
    assert estimate([1.0, 2.0, 3.0]) == pytest.approx((2.0, 2.0 - 4.303 / math.sqrt(3), 2.0 + 4.303 / math.sqrt(3)))
    assert estimate([4.0]) == (4.0, None, None) and estimate([]) == (None, None, None)
    many = estimate([0.0, 1.0] * 50)
    assert many.high - many.mean == pytest.approx(2.042 * math.sqrt(0.25 / 99))


def test_the_first_pass_ends_the_search():
    asked = []
    assert first_pass([10, 20, 30, 40], lambda iteration: asked.append(iteration) or iteration in (20, 40)) == 20
    assert asked == [10, 20]
    assert first_pass([10, 20], lambda iteration: False) is None


def test_the_time_to_the_gate_is_that_of_collecting_and_learning():
    records = [{"iteration": i, "collect_s": 1.0, "learn_s": 0.5, "env_steps": 100 * i} for i in (1, 2, 3)]
    assert progress(records, 2) == (3.0, 200) and progress(records, math.inf) == (4.5, 300)


def test_overrides_are_arguments():
    assert as_arguments(["num_envs=8", "policy.actor_hidden_dims=64 32"]) == [
        "--num_envs", "8", "--policy.actor_hidden_dims", "64", "32",
    ]  # fmt: skip


def test_settings_that_are_on_or_off_are_flags():
    switched = as_arguments(["acceleration.cuda_graphs=True", "deterministic=False", "a.b=False"])
    assert switched == ["--acceleration.cuda_graphs", "--no_deterministic", "--a.no_b"]


def test_the_trainings_of_the_gpu_benchmark_are_understood():
    """On a GPU too, which is not there to try: parse() would refuse it, so its parts are called."""
    benchmark = gpu.Gpu(device="cuda:0", train_envs=64, train_iterations=7)
    arguments = as_arguments(gpu._training_flags(benchmark))
    _, cfg = parse_config(Flags, Go2Flat(), [_expand(word, set()) for word in arguments])
    assert cfg.acceleration.cuda_graphs and cfg.rl_device == cfg.sim_device == "cuda:0"
    assert cfg.env.sim.backend == "mujoco_warp" and cfg.env.num_envs == 64


@pytest.mark.slow
def test_the_gpu_benchmark_trains_and_films(run_script, root, tmp_path):
    before = set((root / "logs").glob("benchmark_*"))
    small = ("--device", "cpu", "--train_envs", "8", "--train_iterations", "5", "--seeds", "1")
    done = run_script("scripts/benchmark.py", "gpu", *small, "--parts", "trainings", "film", "--folder", str(tmp_path))
    result = result_of(done)
    assert len(result["trainings"]["runs"]) == 1 and "failed" not in result
    assert (tmp_path / "exported" / "policy.pt").is_file() and (tmp_path / "results.json").is_file()
    assert any(line.startswith("video: ") for line in result["film"]["told"])
    assert set((root / "logs").glob("benchmark_*")) == before


FAULTY = ("--num_envs", "64", "--num_steps", "16", "--iterations", "20", "--seeds", "1", "2")


@pytest.mark.slow
def test_a_training_with_faults_is_compared_with_one_without_and_a_peers(run_script, peer):
    arguments = ("--kinds", "reward nan", "broken for good", "--rates", "1e-2", "--pairs", "1", "--num_robots", "4")
    done = run_script("scripts/benchmark.py", "faults", *FAULTY, *arguments, "--peer", str(peer))
    result = result_of(done)
    assert [(case["kind"], case["rate"]) for case in result["cases"]] == [
        ("none", 0), ("reward nan", 0.01), ("broken for good", 0),
    ]  # fmt: skip
    none, reward, for_good = (case["ours"] for case in result["cases"])
    assert none["ratio"] == 1 and none["broken"] == none["left_out"] == 0
    assert result["cases"][1]["expected_events"] == pytest.approx(2 * 64 * 16 * 20 * 0.01)
    assert 300 < reward["events"] == reward["broken"] == reward["counted"] == reward["left_out"]
    assert for_good["events"] == 2 and for_good["broken"] == for_good["counted"]
    assert result["cases"][0]["peer"] == ["2 of 2: 1.00 of its return without faults"]
    (ending,) = result["cases"][1]["peer"]
    assert ending.startswith(
        "2 of 2: ValueError: The rewards returned by the environment contain NaN values, iteration"
    )
    assert "reward nan 0.01" in done.stdout and "loss of throughput" in done.stdout
    cost = result["cost"]
    ways = cost["seconds"]["with"]["median"], cost["seconds"]["without"]["median"]
    assert min(ways) > 0 and cost["ratio"]["median"] == pytest.approx(ways[0] / ways[1])
    assert cost["throughput_loss"] == pytest.approx(1 - ways[1] / ways[0])


@pytest.mark.slow
def test_trainings_that_suffer_are_a_failure(run_script):
    """After one update, two policies are as good as chance makes them."""
    arguments = ("--kinds", "physics nan", "--rates", "0.5", "--iterations", "1", "--pairs", "0")
    done = run_script("scripts/benchmark.py", "faults", *FAULTY, *arguments)
    assert done.returncode == 1 and "physics nan 0.5 led to" in done.stderr


def test_without_protection_the_training_is_the_same_while_nothing_breaks(small_cfg):
    def weights_after(way):
        torch.manual_seed(0)
        runner = OnPolicyRunner(replace(Go2Flat().env, num_envs=4).build(seed=0), small_cfg)
        with way(runner):
            runner.learn(2)
        return runner, torch.cat([p.detach().flatten() for p in runner.alg.policy.parameters()])

    (runner, protected), (_, bare) = weights_after(lambda _: contextlib.nullcontext()), weights_after(unprotected)
    torch.testing.assert_close(protected, bare)
    runner.env.sim.set_root_velocity(torch.ones(4).bool(), torch.full((4, 3), 1e3), torch.zeros(4, 3))
    with unprotected(runner):
        assert not any(rows.any() for rows in runner.env.step(torch.zeros(4, 12)).extras["invalid"].values())
    runner.env.sim.set_root_velocity(torch.ones(4).bool(), torch.full((4, 3), 1e3), torch.zeros(4, 3))
    assert runner.env.step(torch.zeros(4, 12)).extras["invalid"]["state"].all()


A_RUN = {
    "error": None, "not_finite": None, "iterations": 9, "return": 0.9, "events": 2, "unusable": 3, "left_out": 3,
    "skipped": 0, "broken": {"reward": 2}, "counted": {"reward": 2},
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"return": 0.87}, None),
        ({"return": 0.85}, "led to 0.944 of the return without"),
        ({"return": 0.96}, "led to 1.067 of the return without"),
        ({"return": torch.nan}, "led to no number of the return without"),
        ({"counted": {"reward": 1}}, "broke 2 things in 3 steps and 1 in 3 were counted"),
        ({"left_out": 2}, "broke 2 things in 3 steps and 2 in 2 were counted"),
        ({"not_finite": 4}, "left weights that are not finite"),
        ({"error": "ValueError: NaN"}, "ended the training with ValueError: NaN"),
    ],
)
def test_what_a_training_suffers_is_said(changes, words):
    case = {"kind": "reward nan", "rate": 0.01, "ours": summary([{**A_RUN, **changes}], [A_RUN])}
    assert complaints(case) == ([] if words is None else [f"reward nan 0.01 {words}"])


def test_endings_of_one_kind_are_told_once():
    runs = [{**A_RUN, "error": "ValueError: NaN. A bug.", "iterations": i} for i in (0, 4)]
    runs += [{**A_RUN, "not_finite": 7}, {**A_RUN, "return": 0.45}]
    assert endings(runs, [A_RUN] * 4) == [
        "2 of 4: ValueError: NaN, iteration 1-5",
        "1 of 4: weights not finite, iteration 7",
        "1 of 4: 0.50 of its return without faults",
    ]


def test_every_fault_can_be_asked_for():
    assert get_args(Kind) == tuple(kind for kind in KINDS if kind != "none")


def test_workers_take_turns_and_warm_up_first():
    order = []

    class Fake:
        def __init__(self, name):
            self.name = name

        def run(self):
            order.append(self.name)
            return {"turn": len(order)}

    runs = alternate({"a": Fake("a"), "b": Fake("b")}, repeats=2, warm_up=1)
    assert order == ["a", "b"] * 3
    assert runs == {"a": [{"turn": 3}, {"turn": 5}], "b": [{"turn": 4}, {"turn": 6}]}


def test_ratios_are_taken_pair_by_pair():
    ours = [{"update": 1.0, "speed": 1.0}, {"update": 2.0, "speed": 1.0}, {"update": 1.0, "speed": 1.0}]
    peer = [{"update": t} for t in (2.0, 4.0, 5.0)]
    assert spreads(peer) == {"update": (4.0, 2.0, 5.0)}
    assert ratios(ours, peer) == {"update": (2.0, 2.0, 5.0)}


@pytest.mark.parametrize(
    ("spread", "words"),
    [
        ((1.5, 1.25, 2.0), "1.50 (1.25-2.00)"),
        ((0.05, 0.04, 0.06), "0.0500 (0.0400-0.0600)"),
        ((9999, 1, 10001), "9999 (1-10001)"),
    ],
)
def test_a_spread_has_three_digits(spread, words):
    assert Spread(*spread).text() == words


def test_what_a_worker_prints_is_no_answer(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(
        "import os\n"
        "from benchmarks.serving import serve\n"
        "def build(settings):\n"
        "    print('hello')\n"
        "    return lambda: os.system('echo hello') or {'answer': settings['answer']}\n"
        "serve(build)\n"
    )
    worker = Worker(str(script), {"seed": 1, "device": "cpu", "answer": 42})
    try:
        figures = worker.run()
    finally:
        worker.stop()
    assert figures["answer"] == 42 and figures["peak_mb"] > 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("learner", "--num_envs", "0"), "--num_envs 0: give a whole number of at least 1"),
        (("learner", "--num_envs", "8", "-1"), "--num_envs -1: give a whole number of at least 1"),
        (("learner", "--num_envs"), "--num_envs is empty"),
        (("learner", "--warm_up", "0"), "--warm_up 0: give a whole number of at least 1"),
        (("learner", "--done_rate", "2"), "--done_rate 2.0 must lie in [0, 1]"),
        (("learner", "--policy", "rnn"), "'rnn'"),
        (("learner", "--peer", "nowhere"), "pip install --no-deps --target nowhere rsl-rl-lib"),
        (("learner", "--num_envs", "2", "--policy", "gru"), "2 environments for num_mini_batches=4"),
        (("learner", "--device", "gpu"), "device='gpu' is not a device"),
        (("learner", "--plot", "nowhere/growth.png"), "--plot nowhere/growth.png: there is no folder nowhere"),
        (("learner", "--plot", "growth.pdf"), "ends in .png"),
        (("sim", "--backends", "mujcoo"), "unknown sim backend 'mujcoo'; known: isaacgym, mujoco,"),
        (("sim", "--backends"), "--backends is empty"),
        (("sim", "--task", "toy"), "--task toy has no physics"),
        (("sim", "--devices", "cpu", "cpu"), "give one, or one for each of the 1 backends"),
        (("sim", "--seconds", "0"), "--seconds 0.0: give a positive time"),
        (("train", "--task", "toy"), "ToyConfig is not the config of a legged robot"),
        (("train", "--seeds", "1", "1"), "names a seed twice"),
        (("train", "--overrides", "num_envs"), "write FIELD=VALUE"),
        (("train", "--seconds", "0.001"), "less than one control step"),
        (("faults", "--rates", "0"), "--rates 0.0: give a probability, above 0"),
        (("faults", "--rates"), "--rates is empty"),
        (("faults", "--seeds"), "--seeds is empty"),
        (("faults", "--pairs", "-1"), "--pairs -1: give a whole number of at least 0"),
        (("faults", "--kinds", "reward zero"), "'reward zero'"),
        (("faults", "--peer", "nowhere"), "pip install --no-deps --target nowhere rsl-rl-lib"),
        (("faults", "--kinds", "--task", "toy", "--seeds", "1"), "--task toy has no robots"),
        (("walk",), "walk"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run_script, arguments, words):
    done = run_script("scripts/benchmark.py", *arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert words in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_a_missing_matplotlib_shows_before_anything_is_measured(run_script, tmp_path):
    (tmp_path / "matplotlib.py").write_text(
        "raise ModuleNotFoundError('No module named matplotlib', name='matplotlib')"
    )
    arguments = ("learner", "--num_envs", "8", "--plot", str(tmp_path / "growth.png"))
    new_process = ("-X", "utf8")  # which has not imported matplotlib
    done = run_script(*new_process, "scripts/benchmark.py", *arguments, PYTHONPATH=str(tmp_path))
    assert done.returncode == 2 and done.stdout == "" and not (tmp_path / "growth.png").exists()
    assert "matplotlib" in done.stderr and "install it" in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_settings_that_train_refuses_are_a_mistake(run_script):
    done = run_script("scripts/benchmark.py", "train", "--seeds", "1", "--overrides", "max_iteration=2")
    assert done.returncode == 2 and "--max_iteration" in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_products_of_both_libraries_are_timed_for_each_pass(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["products", "--rows", "8", "--repeats", "1"])
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)  # of this process
    monkeypatch.setattr(products, "prepare_host", lambda: None)
    products.main()
    first, _, *rows = capsys.readouterr().out.splitlines()
    assert f"products of trainings are by {library()}" in first
    assert [row.split()[:3] for row in rows] == [
        [network, "8", name] for network in ("MLP", "LSTM") for name in ("forward", "input", "weight")
    ]
    assert all(float(number) > 0 for row in rows for number in row.split()[3:])


def test_both_libraries_compute_equal_products_for_the_benchmark():
    for own, onednn in products.passes(64, 30, 50).values():
        torch.testing.assert_close(onednn(), own(), atol=1e-4, rtol=1e-4)


def test_collectives_are_timed_between_processes(run_script):
    arguments = ("collectives", "--processes", "2", "--kilobytes", "1", "64", "--repeats", "3")
    result = result_of(run_script("scripts/benchmark.py", *arguments))
    (entry,) = result["results"]
    assert entry["processes"] == 2 and entry["bytes"] == [1024, 65536]
    assert set(entry["seconds"]) == {"all_reduce", "broadcast", "all_gather"}
    times = [time for operation in entry["seconds"].values() for time in operation]
    assert len(times) == 6 and all(0 < time["least"] <= time["median"] for time in times)


def test_fit_of_latency_and_bandwidth_finds_those_of_exact_times():
    sizes = [1e3, 1e4, 1e6]
    latency, bandwidth = collectives.fit(sizes, [2e-4 + size / 3e9 for size in sizes])
    assert latency == pytest.approx(2e-4) and bandwidth == pytest.approx(3e9)


ROOMY = scaling.Cluster(8, "nvlink", 360.0, 368.0, 0.0, True)


@pytest.mark.parametrize("gpus", [2, 8])
def test_all_reduce_within_a_node_is_a_ring_for_large_messages(gpus):
    size = 4e9
    steps = 2 * (gpus - 1)
    by_hand = 8.4e-6 + steps * 3.4e-6 + size * steps / gpus / 360e9  # Simple: base, steps, and the data on each link
    assert scaling.all_reduce_seconds(size, gpus, ROOMY) == pytest.approx(by_hand)


def test_all_reduce_of_small_messages_over_many_nodes_is_a_tree():
    by_hand = 6.8e-6 + 2 * (7 * 0.6e-6 + 7 * 5.0e-6)  # LL: base, seven steps in a node, log2(128) between the nodes
    assert scaling.all_reduce_seconds(0.0, 1024, ROOMY) == pytest.approx(by_hand)
    assert scaling.all_reduce_seconds(8.0, 1, ROOMY) == 0.0


def test_gradient_of_the_model_of_scaling_has_the_size_of_the_networks():
    policy = ActorCritic(48, 48, 12, actor_hidden_dims=[512, 256, 128], critic_hidden_dims=[512, 256, 128])
    assert scaling.gradient_bytes(scaling.Scaling()) == 4 * sum(p.numel() for p in policy.parameters())


@pytest.mark.parametrize("name", scaling.CLUSTERS)
def test_number_of_environments_is_the_least_for_the_share(name):
    cfg = scaling.Scaling(share=0.05)
    for gpus in (2, 16, 1024):
        envs = scaling.point(cfg, name, gpus).envs_of_iteration
        shares = [
            scaling.point(replace(cfg, num_envs=number), name, gpus).share_of_iteration for number in (envs, envs - 1)
        ]
        assert shares[0] <= 0.05 < shares[1]


@pytest.mark.parametrize(("gpus", "published"), [(4, 250_000), (16, 960_000)])
def test_model_of_scaling_is_near_the_published_rates_of_several_gpus(gpus, published):
    """Isaac Lab's rates of 4 and of 4 x 4 L40s; the model leaves out the waiting for the slowest GPU."""
    cfg = scaling.Scaling()
    one = scaling.point(cfg, "L40, PCIe, 100 Gbit/s Ethernet", gpus)
    rate = gpus * cfg.num_envs * cfg.num_steps / (one.communication + one.collect + one.learn)
    assert published == pytest.approx(rate, rel=0.03)


def test_shares_of_communication_are_drawn(run_script, tmp_path):
    picture = tmp_path / "scaling.png"
    result = result_of(run_script("scripts/benchmark.py", "scaling", "--plot", str(picture)))
    assert picture.read_bytes().startswith(b"\x89PNG") and list(tmp_path.iterdir()) == [picture]
    for points in result["results"].values():
        assert [one["gpus"] for one in points] == [2**i for i in range(11)]
        shares = [one["share_of_iteration"] for one in points]
        assert shares == sorted(shares) and shares[0] == 0.0
