"""The audit of rewards: what motions earn, and which faults it names."""

import json
import math
from dataclasses import replace

import pytest
import torch

from configs import EXPERIMENTS
from configs.g1_flat import biped_task
from configs.go2_flat import flat_task
from configs.go2_track import track_task
from rsl_rl.cli.main import main
from rsl_rl.config.mdp import RewardTerm
from rsl_rl.config.task import LeggedRobotConfig, ToyConfig
from rsl_rl.evaluation.audit import audit, report_html
from rsl_rl.evaluation.audit.findings import dead_zones, last_crossing
from rsl_rl.evaluation.audit.incomes import CommandRow, Earned, commands_of
from rsl_rl.robots import ROBOTS
from tests.evaluation.rewards_of_others import paid_steps_task, wide_tracking_task, with_ranges

FORWARD = {"x": (0.0, 0.5)}


def kinds(result):
    return {(finding.kind, finding.direction) for finding in result.findings}


@pytest.fixture(scope="module")
def forward_go2():
    """The audit of go2_flat with forward commands only."""
    return audit(with_ranges(flat_task(), **FORWARD))


def test_audit_of_standing_pays_the_tracking_kernel_of_the_command(forward_go2):
    for row in forward_go2.rows:
        terms = row.earned["stand"].terms
        assert terms["track_lin_vel"] == pytest.approx(1.5 * math.exp(-(row.size**2) / 0.25), rel=1e-4)
        assert terms["track_yaw_rate"] == pytest.approx(0.75, rel=1e-4)
        assert terms["feet_air_time"] == terms["foot_slip"] == 0


def test_audit_walks_at_the_command_and_marches_on_the_spot(forward_go2):
    for row in forward_go2.rows:
        assert row.earned["walk"].velocity == pytest.approx(row.command, abs=1e-3)
        assert row.earned["march"].velocity == pytest.approx((0, 0, 0), abs=1e-3)


def test_audit_total_is_the_sum_of_the_terms_where_it_is_positive(forward_go2):
    for row in forward_go2.rows:
        for earned in row.earned.values():
            assert earned.total == pytest.approx(max(0.0, sum(earned.terms.values())), abs=2e-3)


def test_audit_of_a_gait_clock_pays_walking_the_whole_gait_term():
    result = audit(with_ranges(biped_task(), x=(0.0, 0.8)))
    for row in result.rows:
        if row.size > 0.1:
            assert row.earned["walk"].terms["gait"] == pytest.approx(1.5, rel=1e-3)
            assert row.earned["stand"].terms["gait"] < 0.3
    assert not result.findings


def test_audit_of_a_wide_tracking_kernel_names_it_for_small_commands():
    result = audit(with_ranges(wide_tracking_task(), x=(0.0, 0.8), y=(-0.5, 0.5)))
    assert kinds(result) == {("dead_zone", "forward"), ("dead_zone", "sideways")}
    forward = result.findings[0]
    assert forward.term == "track_lin_vel" and forward.motion == "stand"
    assert "`track_lin_vel` with tracking_sigma 0.25 pays 0.85 of its weight for standing" in forward.sentence
    assert "at 0.2 m/s" in forward.sentence and "`torques`" in forward.sentence
    assert 0.1 < result.predicted["forward"] < 0.3


def test_audit_of_a_narrow_tracking_kernel_is_without_a_complaint():
    task = with_ranges(wide_tracking_task(sigma=0.05), x=(0.0, 0.5))
    assert not audit(replace(task, commands=replace(task.commands, dead_zone=0.1))).findings


def test_audit_of_steps_that_are_paid_in_place_names_the_term():
    (finding,) = audit(paid_steps_task()).findings
    assert (finding.kind, finding.motion, finding.term) == ("in_place", "march", "air_time")
    assert "`air_time` pays it" in finding.sentence and "steps in place" in finding.sentence


def test_audit_of_steps_that_are_paid_to_a_moving_robot_is_without_a_complaint():
    assert not audit(paid_steps_task(least_speed=0.1)).findings


def test_audit_of_a_walk_that_costs_more_than_it_earns_names_the_cost():
    task = with_ranges(flat_task(), **FORWARD)
    rewards = replace(task.rewards.with_weights({"energy": -1.0}), only_positive=False)
    result = audit(replace(task, rewards=rewards))
    assert ("falling", "") in kinds(result)
    falling = next(finding for finding in result.findings if finding.kind == "falling")
    assert falling.term == "energy" and "early fall" in falling.sentence


def test_audit_of_lying_that_does_not_end_the_episode_names_what_pays_it():
    task = with_ranges(flat_task(), **FORWARD)
    task = replace(
        task,
        rewards=task.rewards.with_weights({"alive": 9.0, "orientation": 0.0}),
        terminations=replace(task.terminations, contact_links=(), max_tilt=3.1416),
    )
    lying = [finding for finding in audit(task).findings if finding.kind == "lying"]
    assert lying and "does not end the episode" in lying[0].sentence


class Still:
    """A policy that stands."""

    def __init__(self, num_actions):
        self.num_actions = num_actions

    def __call__(self, obs):
        return torch.zeros(len(obs["policy"]), self.num_actions)

    def reset(self, dones=None):
        pass


def test_audit_of_a_policy_that_stands_agrees_with_the_sham_and_measures_its_dead_zone():
    task = with_ranges(flat_task(), **FORWARD)
    task = replace(task, rewards=task.rewards.with_weights({"base_height": 0.0, "stand_still": 0.0}))
    result = audit(task, Still(12))
    assert result.measured == {"forward": math.inf}
    for row in result.rows:
        assert row.earned["policy"].total == pytest.approx(row.earned["stand"].total, rel=0.05)


@pytest.mark.parametrize(
    ("margins", "standing", "size"),
    [
        ([(0.1, 1.0), (0.2, 2.0)], 0.05, 0.05),
        ([(0.1, 1.0), (0.2, 2.0)], 0.0, 0.0),
        ([(0.1, -1.0), (0.2, 1.0)], 0.05, 0.15),
        ([(0.1, 1.0), (0.2, -1.0), (0.4, 3.0)], 0.05, 0.25),
        ([(0.1, -1.0), (0.2, -1.0)], 0.05, math.inf),
        ([(0.01, -1.0), (0.1, 1.0)], 0.05, 0.05),
        ([(0.05, 1.0), (0.1, 1.0)], 0.1, 0.1),
        ([(0.05, -1.0), (0.1, 1.0), (0.15, 1.0)], 0.2, 0.2),
        ([(0.05, -1.0), (0.1, -1.0), (0.15, 1.0)], 0.1, 0.1),
        ([(0.05, -1.0)], 0.1, 0.1),
    ],
)
def test_dead_zone_is_where_the_margin_becomes_positive_for_good_beyond_commands_to_stand(margins, standing, size):
    assert last_crossing(margins, standing) == pytest.approx(size)


@pytest.mark.parametrize(("motion", "stand"), [("walk", 0.25), ("policy", 0.15)])
def test_dead_zone_of_standing_subtracts_twice_the_loss_at_the_smallest_command(motion, stand):
    def earned(total):
        return Earned(total, {}, (0.0, 0.0, 0.0))

    walks = {0.05: 0.5, 0.1: 0.9, 0.2: 1.1, 0.3: 1.3, 0.4: 1.5}  # 0.05 is to be stood at
    shams = {"stand": earned(1.0), "march": earned(1.0)}
    rows = [
        CommandRow("forward", size, (size, 0.0, 0.0), {motion: earned(total), **shams}) for size, total in walks.items()
    ]
    assert dead_zones(rows, standing=0.05) == pytest.approx({"stand": stand, "march": 0.15})


def test_commands_of_an_audit_end_at_the_ranges():
    found = commands_of(((-0.2, 1.0), (0.0, 0.0), (-0.7, 0.7)))
    assert {name for name, _, _ in found} == {"forward", "backward", "turning"}
    largest = {name: command for name, _, command in found}
    assert largest == {"forward": (1.0, 0, 0), "backward": (-0.2, 0, 0), "turning": (0, 0, -0.7)}
    assert all(size == pytest.approx(max(map(abs, command))) for _, size, command in found)


def test_report_of_an_audit_has_every_motion_and_a_plot(forward_go2):
    page = report_html("go2_flat", forward_go2)
    assert all(name in page for name in forward_go2.rows[0].earned)
    assert "data:image/png;base64," in page and "<p>None.</p>" in page


def test_audit_command_ends_with_json(capsys, tmp_path):
    flags = ["--env.commands.lin_vel_x", "0", "0.5", "--env.commands.lin_vel_y", "0", "0"]
    flags += ["--env.commands.yaw_rate", "0", "0", "--report", str(tmp_path / "audit.html")]
    assert main(["audit", "--task", "go2_flat", *flags]) == 0
    printed = capsys.readouterr().out.splitlines()
    result = json.loads(printed[-1])
    assert result["findings"] == [] and result["task"] == "go2_flat"
    assert set(result["dead_zone"]) == {"forward"} and len(result["commands"]) == 8
    assert "no complaint about the rewards" in printed
    assert (tmp_path / "audit.html").is_file()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--task", "go2_flta"], "Did you mean 'go2_flat'?"),
        (["--task", "toy"], "ToyConfig is not the config of a legged robot"),
        (["--task", "go2_flat", "--report", "/nowhere/audit.html"], "--report /nowhere/audit.html is not a file"),
        (["--task", "go2_flat", "--load_run", "nothing_like_it"], "there is no run nothing_like_it"),
    ],
)
def test_audit_command_refuses_wrong_input_in_one_line(flags, message, capsys, tmp_path):
    assert main(["audit", *flags, "--log_root", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_audit_of_another_task_is_refused():
    with pytest.raises(ValueError, match="not the config of a legged robot"):
        audit(ToyConfig())  # type: ignore[arg-type]


def test_audit_without_commands_is_refused():
    with pytest.raises(ValueError, match="no velocity command but zero"):
        audit(with_ranges(flat_task()))


def test_audit_of_a_task_of_reference_motions_is_refused():
    with pytest.raises(ValueError, match="those of reference motions"):
        audit(track_task())


def test_audit_of_a_robot_without_feet_is_refused(tmp_path):
    go2 = ROBOTS.load("go2")
    lines = go2.model_path.read_text().splitlines()
    text = "\n".join(line for line in lines if "framepos" not in line and "framelinvel" not in line)
    (tmp_path / "stump.xml").write_text(text.replace('meshdir="', f'meshdir="{go2.model_path.parent}/'))
    stump = replace(go2, model_path=tmp_path / "stump.xml", mirrored_feet=(), foot_groups={})
    globals()["STUMP"] = stump
    with pytest.raises(ValueError, match="has no foot"):
        audit(replace(with_ranges(flat_task(), **FORWARD), robot=f"{__name__}:STUMP"))


SHIPPED = [
    name
    for name in EXPERIMENTS.names()
    if name.startswith(("go2", "anymal", "g1", "h1"))
    and not name.startswith("go2_flat_mlp")
    and not name.endswith("_track")  # without velocity commands
]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_audit_of_a_shipped_task_is_without_a_complaint(name):
    task = EXPERIMENTS.load(name)().env
    assert isinstance(task, LeggedRobotConfig)
    result = audit(task)
    assert not result.findings, [finding.sentence for finding in result.findings]
    assert all(size <= task.commands.dead_zone + 0.05 for size in result.predicted.values())


def test_audit_of_a_term_of_weight_zero_works():
    task = with_ranges(flat_task(), x=(0.0, 0.2))
    rewards = task.rewards.with_terms({"trot": RewardTerm(0.0)})
    assert all(row.earned["walk"].terms["trot"] == 0 for row in audit(replace(task, rewards=rewards)).rows)


def test_train_audit_prints_the_summary_and_trains_the_same_weights(capsys, tmp_path):
    flags = ["--task", "go2_flat", "--num_envs", "4", "--max_iterations", "1", "--runner.num_steps_per_env", "4"]
    flags += ["--logger", "none", "--env.commands.lin_vel_x", "0", "0.5", "--env.commands.lin_vel_y", "0", "0"]
    flags += ["--env.commands.yaw_rate", "0", "0"]
    weights = []
    for name, more in (("with", ["--audit"]), ("without", [])):
        assert main(["train", *flags, "--log_root", str(tmp_path / name), *more]) == 0
        (checkpoint,) = (tmp_path / name).rglob("model_1.pt")
        weights.append(torch.load(checkpoint, weights_only=True)["model_state_dict"])
        assert ("audit: no complaint about the rewards" in capsys.readouterr().out) == bool(more)
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[1])


def test_audit_command_measures_the_policy_of_a_run(capsys, tmp_path):
    ranges = ["--env.commands.lin_vel_x", "0", "0.5", "--env.commands.lin_vel_y", "0", "0"]
    ranges += ["--env.commands.yaw_rate", "0", "0", "--log_root", str(tmp_path)]
    small = ["--num_envs", "4", "--max_iterations", "1", "--runner.num_steps_per_env", "4", "--logger", "none"]
    assert main(["train", "--task", "go2_flat", *small, *ranges]) == 0
    assert main(["audit", "--task", "go2_flat", "--load_run", "-1", "--log_root", str(tmp_path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    result = json.loads(printed[-1])
    assert any(line.startswith("dead zone of the policy: forward") for line in printed)
    assert all("policy" in row["income"] for row in result["commands"])
