"""A training goes on where observations, rewards or physics break, and tells of each thing that broke."""

import json
from dataclasses import replace

import pytest
import torch

from benchmarks.faults import FOR_GOOD, TOLERANCE
from benchmarks.faulty_point import KINDS, FaultyPoint, watch
from benchmarks.our_faults import train
from benchmarks.pairing import Worker
from configs.go2_flat import Go2Flat
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.tasks.mdp import observations, rewards

CASE = {"num_envs": 64, "num_steps": 16, "iterations": 20, "hidden_dims": [32, 32], "seed": 1, "rate": 1e-2}
FAULTS = tuple(kind for kind in KINDS if kind != "none")


@pytest.fixture(scope="module")
def clean():
    """A training in which nothing breaks."""
    return train({**CASE, "kind": "none"})


def test_nothing_breaks_by_itself(clean):
    assert clean["return"] > 0.88  # at best 0.915, and 0 for doing nothing
    assert clean["left_out"] == clean["skipped"] == sum(clean["counted"].values()) == 0 and not clean["postmortems"]


@pytest.mark.parametrize("kind", FAULTS)
def test_a_training_survives_its_environment(kind, clean):
    run = train({**CASE, "kind": kind})
    assert run["error"] is None and run["iterations"] == 20
    assert run["not_finite"] is None
    assert abs(run["return"] / clean["return"] - 1.0) < TOLERANCE
    assert run["events"] == 1 if kind == FOR_GOOD else run["events"] > 150
    assert run["counted"] == run["broken"] and run["left_out"] == run["unusable"] >= run["events"]
    if kind == "physics nan":  # reset after the rollout of 16 steps, long before the clock would
        assert run["unusable"] < 9 * run["events"]
    assert run["skipped"] == 0  # the networks never met what broke
    causes = {cause for cause, number in run["broken"].items() if number}
    assert {name.rpartition("_")[0] for name in run["postmortems"]} == causes


def test_the_same_faults_end_the_peer(peer):
    cases = [{"kind": kind} for kind in KINDS]
    worker = Worker("peer_faults.py", {**CASE, "device": "cpu", "cases": cases}, peer)
    try:
        runs = {case["kind"]: worker.run() for case in cases}
    finally:
        worker.stop()
    assert runs["none"]["error"] is None and runs["none"]["return"] > 0.88
    for kind in ("obs nan", "obs inf", "reward nan", "physics nan", FOR_GOOD):
        assert runs[kind]["error"].startswith("ValueError") and "NaN" in runs[kind]["error"]
    assert runs["reward inf"]["not_finite"] is not None
    huge = runs["reward 1e30"]  # ends nothing, but the learning
    assert huge["error"] is not None or huge["return"] < (1.0 - TOLERANCE) * runs["none"]["return"]


# The environment that breaks


def act(env, num_steps):
    """The observations, rewards and dones of steps to the right, [num_steps, N] each."""
    steps = [env.step(torch.ones(env.num_envs, 1)) for _ in range(num_steps)]
    return [
        torch.stack(x) for x in ([s[0]["policy"][:, 0] for s in steps], [s[1] for s in steps], [s[2] for s in steps])
    ]


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_strike_at_their_rate_and_leave_the_rest_alone(kind):
    env = FaultyPoint(500, seed=3, kind=kind, rate=1e-2, quiet_steps=4)
    obs, reward, _ = act(env, 20)
    sound_obs, sound_reward, _ = act(FaultyPoint(500, seed=3), 20)
    broken_obs, broken_reward = ~(obs.abs() < 1e6), ~(reward.abs() < 1e6)
    assert not (broken_obs | broken_reward)[:4].any()
    assert torch.equal(obs[~broken_obs], sound_obs[~broken_obs])
    assert torch.equal(reward[~broken_reward], sound_reward[~broken_reward])
    assert (env.broken["observation"], env.broken["reward"]) == (broken_obs.sum(), broken_reward.sum())
    if kind in ("obs nan", "obs inf", "reward nan", "reward inf", "reward 1e30"):
        assert env.num_events == broken_obs.sum() + broken_reward.sum()
    if kind == FOR_GOOD:
        assert env.num_events == 1 and broken_obs[4:, 0].all() and broken_obs.sum() == 16
    else:
        assert env.num_events == pytest.approx(500 * 16 * 1e-2, abs=45)  # five standard deviations


def test_broken_physics_stays_broken_until_a_reset():
    env = FaultyPoint(4, seed=0, kind="physics nan", rate=1.0, quiet_steps=0)
    act(env, 2)
    assert env.x.isnan().all() and env.num_events == 4 and env.broken["observation"] == env.broken["reward"] == 8
    env.reset([1, 2])
    assert env.get_observations()["policy"].isnan()[:, 0].tolist() == [True, False, False, True]
    env = FaultyPoint(4, seed=0, kind=FOR_GOOD, quiet_steps=0)
    act(env, 1)
    assert env.reset()["policy"].isnan()[:, 0].tolist() == [True, False, False, False]


def test_weights_are_watched_after_every_update():
    network = torch.nn.Linear(1, 1)

    class Algorithm:
        def update(self):
            network.weight.data += 1.0

    algorithm = Algorithm()

    def learn():
        algorithm.update()
        network.bias.data.fill_(torch.nan)
        algorithm.update()
        raise RuntimeError("too\nbad")

    assert watch(algorithm, [network], learn) == {"iterations": 2, "not_finite": 2, "error": "RuntimeError: too bad"}


# Real physics


STRUCK, WHEN, NUM_ROBOTS = 3, 5, 16
OTHERS = [robot for robot in range(NUM_ROBOTS) if robot != STRUCK]
JOINT_VEL = observations.TERMS["joint_vel"]


def moving(*velocity):
    """A fault: the robot has another velocity."""

    def strike(env, monkeypatch):
        mask, zeros = torch.arange(NUM_ROBOTS) == STRUCK, torch.zeros(NUM_ROBOTS, 3)
        env.sim.set_root_velocity(mask, torch.tensor(velocity).expand(NUM_ROBOTS, 3), zeros)

    return strike


def breaking(terms, name):
    """A fault: a term is NaN for the robot, until it is reset."""

    def strike(env, monkeypatch):
        sound = terms[name]

        def broken(*arguments):
            return sound(*arguments).index_fill(0, torch.tensor(STRUCK), torch.nan)

        monkeypatch.setitem(terms, name, broken)
        env.observers.append(lambda *_: terms.update({name: sound}))  # after the step, before the resets

    return strike


@pytest.fixture
def robots(monkeypatch):
    """What makes robots whose terms can be broken while they walk."""
    late = {"joint_vel": JOINT_VEL.function, "torques": rewards.torques}
    monkeypatch.setitem(observations.TERMS, "joint_vel", JOINT_VEL._replace(function=lambda s: late["joint_vel"](s)))
    monkeypatch.setitem(rewards.TERMS, "torques", lambda s: late["torques"](s))
    return lambda: replace(Go2Flat().env, num_envs=NUM_ROBOTS).build(seed=0), late


def rows_of(result):
    """Everything that a step says of each robot, [N, ...] by name."""
    extras = result.extras
    groups = {
        f"{where} {name}": x
        for where, obs in (("", result.obs), ("final", extras["final_obs"]))
        for name, x in obs.items()
    }
    log = {name: x for name, x in extras["log"].items() if x.dim()}  # others, such as factors of schedules, are of all
    return {**groups, **log, "reward": result.reward, "done": result.done, "time_outs": extras["time_outs"]}


@pytest.mark.parametrize(
    ("strike", "cause", "term"),
    [
        (lambda late: moving(1e12, 1e12, 1e12), "engine", ""),
        (lambda late: moving(torch.nan, 0.0, 0.0), "engine", ""),
        (lambda late: moving(0.0, 0.0, 1e3), "state", "trunk velocity z"),  # upwards: the legs hang free
        (lambda late: breaking(late, "torques"), "reward_term", "torques"),
        (lambda late: breaking(late, "joint_vel"), "observation_term", "policy joint_vel"),
    ],
)
def test_a_broken_robot_starts_anew_and_the_others_walk_on(robots, strike, cause, term, monkeypatch):
    make, late = robots
    struck, sound = make(), make()
    for t in range(12):
        actions = torch.randn(NUM_ROBOTS, 12)
        if t == WHEN:
            strike(late)(struck, monkeypatch)
        result, expected = struck.step(actions), sound.step(actions)
        assert {c: rows.nonzero().flatten().tolist() for c, rows in result.extras["invalid"].items() if rows.any()} == (
            {cause: [STRUCK]} if t == WHEN else {}
        )
        for name, rows in rows_of(expected).items():
            assert torch.equal(rows_of(result)[name][OTHERS].nan_to_num(9.0), rows[OTHERS].nan_to_num(9.0)), (t, name)
        assert all(group.isfinite().all() for group in (result.reward, *result.obs.values()))
        if t == WHEN:
            assert result.done[STRUCK] and result.reward[STRUCK] == 0 and struck.episode_length_buf[STRUCK] == 0
            assert struck.sim.root_pos[STRUCK, 2] == pytest.approx(struck.robot.standing_height)
    assert torch.equal(struck.sim.physics_state()[OTHERS], sound.sim.physics_state()[OTHERS])
    assert struck.postmortem(cause)["term"] == term and sound.postmortem(cause) is None


def test_a_finite_value_above_the_limit_is_masked_as_in_any_environment(robots, small_cfg, tmp_path, monkeypatch):
    make, late = robots
    env, torques = make(), late["torques"]
    steps = iter(range(100))
    late["torques"] = lambda state: torques(state).index_fill(0, torch.tensor(STRUCK), -1e15 if next(steps) == 9 else 0)
    runner = OnPolicyRunner(env, small_cfg, tmp_path)
    runner.learn(1)
    (record,) = (json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert (record["faults/reward"], record["faults/reward_term"], record["excluded_steps"]) == (1, 0, 1)


def test_a_robot_that_breaks_again_is_found_again(robots, monkeypatch):
    make, _ = robots
    env, found = make(), []
    for t in range(8):
        if t in (2, 3, 6):
            moving(1e12, 0.0, 0.0)(env, monkeypatch)
        found.append(bool(env.step(torch.zeros(NUM_ROBOTS, 12)).extras["invalid"]["engine"][STRUCK]))
    assert [t for t, broke in enumerate(found) if broke] == [2, 3, 6]


def test_robots_that_break_while_others_learn(robots, small_cfg, tmp_path, monkeypatch):
    """One is lost between two iterations, one within the second of them, and a term breaks in the third."""
    make, late = robots
    env = make()
    strikes = {3 + 8: moving(1e12, 0.0, 0.0), 3 + 12: moving(0.0, 1e3, 0.0), 3 + 20: breaking(late, "torques")}
    step, calls = env.step, iter(range(100))

    def faulty_step(actions):
        strikes.get(next(calls), lambda *_: None)(env, monkeypatch)
        return step(actions)

    monkeypatch.setattr(env, "step", faulty_step)
    runner = OnPolicyRunner(env, small_cfg, tmp_path)  # takes three steps
    outcome = watch(runner.alg, [runner.alg.policy], lambda: runner.learn(4))
    assert outcome == {"iterations": 4, "not_finite": None, "error": None}
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    names = ("faults/engine", "faults/state", "faults/reward_term", "excluded_steps")
    assert [[record[name] for name in names] for record in records] == [
        [0, 0, 0, 0], [1, 1, 0, 2], [0, 0, 1, 1], [0, 0, 0, 0],
    ]  # fmt: skip
    assert all(r["faults/observation"] == r["faults/reward"] == r["skipped_steps"] == 0 for r in records)
    names = {path.name for path in (tmp_path / "postmortem").glob("*.json")}
    assert names == {"engine_2.json", "state_2.json", "reward_term_3.json"}
    case = json.loads((tmp_path / "postmortem" / "reward_term_3.json").read_text())
    assert (case["environment"], case["step"], case["term"]) == (STRUCK, 4, "torques")
