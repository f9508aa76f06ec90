"""Metrics and limits of a task's own, and reports of tasks that only stand."""

import re
from dataclasses import replace

import pytest
import torch

from configs.go2_flat import Go2Flat
from rsl_rl.cli.evaluate import print_tables
from rsl_rl.config.mdp import MetricTerm
from rsl_rl.evaluation.conditions import for_evaluation
from rsl_rl.evaluation.evaluate import EvalResult, evaluate_seed
from rsl_rl.evaluation.report import report_html
from rsl_rl.utils.config_io import from_dict, to_dict

pytestmark = pytest.mark.usefixtures("quick_commands")

CFG = Go2Flat().env
HERE = __name__


class Still:
    def __call__(self, obs):
        return torch.zeros(len(obs["policy"]), 12)

    def reset(self, dones=None):
        pass


def knee_height(state, *, joint):
    return joint * state.joint_pos[:, 2]


def one_number(state):
    return state.joint_pos.mean()


def with_metrics(gate=None, **funcs):
    metrics = {name: MetricTerm(f"{HERE}:{func}", params={"joint": 2.0}) for name, func in funcs.items()}
    return replace(CFG, metrics=metrics, gate=gate or {})


def evaluated(cfg):
    env = for_evaluation(cfg, 3, 0.2).build(seed=1)
    seen = []
    env.observers.append(lambda state, done: seen.append(state.joint_pos[:, 2].clone()))
    seed_result = evaluate_seed(env, Still(), 0.2)
    return EvalResult("a", "a.pt", 1, env.cfg, tuple(env.sim.foot_names), [seed_result]), torch.stack(seen)


def test_own_metric_is_a_mean_that_the_gate_limits_and_the_report_shows(capsys):
    result, seen = evaluated(with_metrics({"knees": -10.0}, knees="knee_height"))
    mean = 2.0 * seen.double().mean().item()
    assert result.metrics["knees"] == pytest.approx(mean, rel=1e-6) and len(seen) == 10
    assert len(result.unmet) == 1 and "knees" in result.unmet[0]
    print_tables([result], "")
    assert f"{mean:.4f}" in capsys.readouterr().out and f"{mean:.4f}" in report_html("a", "", [result])
    assert from_dict(type(result.env_cfg), to_dict(result.env_cfg)) == result.env_cfg


def test_comparison_of_tasks_with_different_metrics_has_a_dash_where_there_is_none(capsys):
    first, _ = evaluated(with_metrics(knees="knee_height"))
    second, _ = evaluated(with_metrics(legs="knee_height"))
    assert first.metrics["knees"] == second.metrics["legs"]
    print_tables([first, second], "")
    rows = [line.split("│")[1:4] for line in capsys.readouterr().out.splitlines() if "knees" in line or "legs" in line]
    number = f"{first.metrics['knees']:.4f}"
    assert [[cell.strip() for cell in row] for row in rows] == [["knees", number, "-"], ["legs", "-", number]]
    page = report_html("a", "", [first, second])
    assert page.count(f"<td>{number}</td><td>-</td>") == page.count(f"<td>-</td><td>{number}</td>") == 1


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        (with_metrics(fall_rate="knee_height"), "env.metrics has 'fall_rate', which every evaluation has"),
        (with_metrics(knees="knee_hight"), "has no 'knee_hight'. Did you mean 'knee_height'?"),
        (with_metrics(knees="one_number"), "one_number takes none"),
        (with_metrics({"nees": 1.0}, knees="knee_height"), "gate names 'nees'; known: fall_rate"),
    ],
)
def test_wrong_metric_is_refused_before_the_evaluation(cfg, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        for_evaluation(cfg, 3, 0.2)


def test_metric_of_another_shape_is_an_error_with_the_shape():
    cfg = replace(CFG, metrics={"mean": MetricTerm(f"{HERE}:one_number")})
    with pytest.raises(ValueError, match=r"the metric 'mean' returns \[\]; return a tensor \[N\], here N=3"):
        evaluated(cfg)


def test_task_that_only_stands_has_no_tables_and_plots_of_velocities(capsys):
    commands = replace(CFG.commands, lin_vel_x=(0.0, 0.0), lin_vel_y=(0.0, 0.0), yaw_rate=(0.0, 0.0))
    for cfg, shown in ((CFG, True), (replace(CFG, commands=commands), False)):
        result, _ = evaluated(cfg)
        print_tables([result], "")
        page = report_html("a", "", [result])
        assert ("Tracking errors by command" in capsys.readouterr().out) == shown
        assert ("Tracking errors by command" in page) == ("Commanded against measured velocity" in page) == shown
        assert "One robot of a" in page
