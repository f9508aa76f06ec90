import base64
import json
import math
import os
import re
import shutil
import sys
import threading
import uuid
from dataclasses import replace

import pytest
import torch

import rsl_rl.evaluation
from configs.go2_flat import Go2Flat
from rsl_rl.cli.evaluate import as_json, print_gate_results, print_tables, report_path
from rsl_rl.cli.tables import print_table
from rsl_rl.evaluation import plots, report
from rsl_rl.evaluation.evaluate import EvalResult, SeedResult
from rsl_rl.evaluation.gait_metrics import AXES, CommandBin, GaitMetrics
from rsl_rl.evaluation.report import report_html
from rsl_rl.robots.go2 import GO2
from rsl_rl.viz.video import VideoError

CFG = Go2Flat().env


def test_a_report_replaces_no_pipe_device_or_link(tmp_path):
    (tmp_path / "old.html").touch()
    (tmp_path / "link.html").symlink_to("old.html")
    os.mkfifo(tmp_path / "pipe.html")
    for name in ("old.html", "new.html"):
        assert report_path(str(tmp_path / name), []) == tmp_path / name
    for name in ("link.html", "pipe.html"):
        with pytest.raises(ValueError, match=r"is not a file in an existing folder; give a name such as report\.html"):
            report_path(str(tmp_path / name), [])


def without_plots(monkeypatch):
    monkeypatch.setattr(report, "_plots", lambda eval_results: ())


def seed_result(error, falls, steps=50):
    """What robots might have done that missed their commands by a fixed error."""
    bins = [
        CommandBin(axis, low, low + 1, 10, low + 0.5, low + 0.4, error + i, 2 * error + i)
        for axis in AXES
        for i, low in enumerate((-1.0, 0.0))
    ]
    metrics = {
        **dict.fromkeys(GaitMetrics.NAMES, 0.5),
        "lin_vel_error": error,
        "yaw_rate_error": 0.1,
        "fall_rate": falls,
    }
    recording = {
        "pose": torch.tensor([0.0, 0, 0.3, 1, 0, 0, 0, *GO2.default_joint_pos]).expand(steps, 1, -1),
        "command": torch.ones(steps, 1, 3),
        "velocity": torch.zeros(steps, 1, 3),
        "foot_contact": torch.arange(steps).reshape(-1, 1, 1).expand(-1, 1, 4) % 10 < 5,
        "done": torch.arange(steps).reshape(-1, 1) == 20,
    }
    return SeedResult(metrics, {"engine": 0.0, "head_contact": falls, "tilt": 0.0, "other": 0.0}, bins, recording)


def eval_result(name, errors, falls=0.0, cfg=CFG):
    feet = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
    return EvalResult(name, f"/logs/{name}.pt", 12345, cfg, feet, [seed_result(error, falls) for error in errors])


@pytest.fixture(autouse=True)
def frames(monkeypatch):
    """Return what is to be rendered, without rendering it."""
    asked = []

    def write(path, model_path, pictures, columns, ground):
        asked.append((model_path, pictures, ground))
        path.write_bytes(b"\x89PNG" + bytes(6000))

    monkeypatch.setattr(report, "write_pictures", write)
    return asked


def images(page):
    return [base64.b64decode(data) for data in re.findall(r'src="data:image/png;base64,([^"]+)"', page)]


def test_a_report_of_two_says_who_passed_and_by_how_much():
    page = report_html(
        "go2", "64 robots.", [eval_result("good", [0.1, 0.1, 0.13]), eval_result("bad<1>", [0.1, 0.2, 0.3], falls=0.25)]
    )
    assert "good" in page and "bad&lt;1&gt;" in page and "<1>" not in page
    assert page.count('"pass">passed') == 1
    assert 'class="miss">missed: fall_rate 0.2500 &gt; 0.01 (3 of 3 seeds)<br>lin_vel_error 0.3000 &gt; 0.15 (2' in page
    assert '<td class="pass">0.1100<small>[0.1000, 0.1300]</small></td>' in page
    assert '<td class="miss">0.2000<small>[0.1000, 0.3000]</small></td>' in page
    assert "95 % bootstrap intervals of the mean over 3 seeds, 10,000 resamples" in page
    assert "<tr><td>the head touches the floor</td><td>0.0000</td><td>0.2500</td></tr>" in page
    assert "-1.00 to +0.00 m/s forward</td><td>0.110, 0.220</td><td>0.200, 0.400</td>" in page
    for name in GaitMetrics.NAMES:
        assert name in page and GaitMetrics.DESCRIPTIONS[name].split(",")[0] in page
    assert len(images(page)) == 8 and all(png.startswith(b"\x89PNG") and len(png) > 5000 for png in images(page))


def test_plots_are_drawn_while_robots_are_rendered(monkeypatch):
    drawing, rendering = threading.Event(), threading.Event()

    def draw(eval_results):
        drawing.set()
        assert rendering.wait(30)
        return iter(["<p>plots</p>"])

    def render():
        rendering.set()
        assert drawing.wait(30)
        yield "<p>added</p>"

    monkeypatch.setattr(report, "_plots", draw)
    page = report_html("go2", "", [eval_result("a", [0.1])], render())
    assert page.index("Film of a") < page.index("<p>added</p>") < page.index("Falls by cause") < page.index("plots</p>")


def test_an_error_while_plots_are_drawn_is_raised(monkeypatch):
    def draw(eval_results):
        yield "<p>one</p>"
        raise KeyError("no figure")

    monkeypatch.setattr(report, "_plots", draw)
    with pytest.raises(KeyError, match="no figure"):
        report_html("go2", "", [eval_result("a", [0.1])])


def test_a_run_name_with_markup_of_any_kind_is_shown_as_it_is(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    names = ["run_a|b", "run_[seed=3]", "run_x[/]", "run_$y_$"]
    results = [eval_result(name, [0.1]) for name in names]
    page = report_html("go2", "", results)
    assert "run_a&#124;b" in page and "<td>run_a&#124;b</td>" in page and 'class="run_' not in page
    print_tables(results, "a few robots")
    print_tables(results[1:2], "a few robots")
    out = capsys.readouterr().out
    assert all(name in out for name in names) and "/logs/run_[seed=3].pt" in out
    assert out.count("lin_vel_error") == 2  # one table of four, and one of one


def test_title_of_a_table_is_not_broken(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    title = "/home/user/logs/go2_flat/2026-11-30_12-38-19/model_[200].pt: 128 robots, 20 s"
    print_table(title, [["", "a"], ["row", "1"]])
    assert capsys.readouterr().out.splitlines()[0] == title


def test_comparison_that_is_wider_than_the_terminal_is_printed_in_several_tables(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    names = [f"policy heavy_trunk+condition_{i}" for i in range(10)]
    print_tables([eval_result(name, [0.1 + 0.01 * i]) for i, name in enumerate(names)], "a few robots")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    heads = [word for line in lines for word in re.findall(r"heavy_trunk\+condition_\d", line)]
    assert heads == 2 * [name.split()[1] for name in names]  # of the metrics, then of the errors by command
    errors = [word for line in lines if "lin_vel_error" in line for word in re.findall(r"\d\.\d{4}", line)]
    assert errors == [f"{0.1 + 0.01 * i:.4f}" for i in range(10)]
    gates = [line for line in lines if "lin_vel_error" in line and "<= 0.15" in line]
    assert len(gates) == len([line for line in lines if "lin_vel_error" in line]) > 2


def test_a_report_names_terminations_of_ones_own(monkeypatch):
    without_plots(monkeypatch)
    one = eval_result("own", [0.1])
    falls = {"too_low": 0.25, "hip_contact": 0.5, "late_contacts": 0.0, "other": 0.0}
    page = report_html("go2", "", [replace(one, seed_results=[one.seed_results[0]._replace(falls=falls)])])
    for meaning in ("too_low</td><td>0.2500", "the hip touches the floor</td><td>0.5000", "late_contacts</td><td>0.0"):
        assert f"<tr><td>{meaning}" in page


def test_a_report_needs_nothing_else():
    page = report_html("go2", "", [eval_result("a", [0.1])])
    assert not re.search(r"https?:|//|<script|<link|@import|url\(", re.sub(r'base64,[^"]+', "", page))
    assert page.count("src=") == len(images(page)) == 4  # nobody fell, and there is nothing to compare


def test_one_seed_has_no_interval(monkeypatch):
    without_plots(monkeypatch)
    page = report_html("go2", "", [eval_result("a", [0.1])])
    assert "One seed, so there are no confidence intervals" in page and "<small>[0" not in page


def test_runs_that_were_judged_differently_are_not_passed_over(monkeypatch):
    without_plots(monkeypatch)
    slow = replace(CFG, commands=replace(CFG.commands, lin_vel_x=(0.0, 0.5)), gate={})
    page = report_html("go2", "", [eval_result("a", [0.1]), eval_result("b", [0.1], cfg=slow)])
    assert "The runs differ in commands, gate; each is evaluated with the config that it was trained with." in page
    assert "The runs differ" not in report_html("go2", "", [eval_result("a", [0.1]), eval_result("b", [0.1])])
    assert "sets no limits" in report_html("go2", "", [eval_result("b", [0.1], cfg=slow)])


def saturated(name, share, joints):
    result = eval_result(name, [0.1, 0.1])
    seeds = [one._replace(saturation=joints) for one in result.seed_results]
    for one in seeds:
        one.metrics["torque_saturation"] = share
    return replace(result, seed_results=seeds)


def test_report_begins_with_verdict_limits_warnings_and_frames(monkeypatch):
    without_plots(monkeypatch)
    page = report_html("go2", "Some conditions.", [saturated("a", 0.17, {"knee": 0.6, "hip": 0.1})])
    parts = [
        "Limits, for every seed: fall_rate",
        '"pass">passed',
        "Warning: a: torque",
        "Film of a",
        "Some conditions.",
    ]
    places = [page.index(part) for part in parts]
    assert places == sorted(places) and places[-1] < page.index("Falls by cause")


def test_saturation_above_its_limit_is_a_warning_in_report_table_and_result(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    without_plots(monkeypatch)
    joints = {"hip": 0.01, "knee": 0.62, "ankle": 0.3, "toe": 0.2}
    high, low = saturated("high", 0.0501, joints), saturated("low", 0.05, joints)
    (warning,) = high.warnings
    assert warning.startswith("torque_saturation 0.050 > 0.05: joints are at their torque limit for 5.0% of the time")
    assert "(most: knee 62%, ankle 30%, toe 20%)" in warning and not low.warnings
    page = report_html("go2", "", [high, low])
    assert page.count('class="warn">Warning') == 1 and page.count('td class="warn"') == 1
    assert as_json([high])["warnings"] == [warning] and as_json([low])["warnings"] == []
    print_tables([high, low], "")
    print_gate_results([high, low])
    out = capsys.readouterr().out
    assert "warning: > 0.05" in out and f"warning: high: {warning}" in out and "warning: low" not in out


def test_frames_are_spread_over_the_walk_and_on_its_ground(frames, monkeypatch):
    without_plots(monkeypatch)
    report_html("go2", "", [eval_result("a", [0.1])])
    ((model_path, pictures, ground),) = frames
    assert model_path == GO2.model_path and ground is None
    assert [picture.caption[:5] for picture in pictures] == ["0.0 s", "0.2 s", "0.4 s", "0.6 s", "0.8 s", "1.0 s"]
    rough = replace(CFG, terrain=replace(CFG.terrain, types={"stairs_up": 1.0}, num_columns=1, num_levels=2))
    report_html("go2", "", [eval_result("a", [0.1], cfg=rough)])
    heights = frames[-1][2].heights
    assert heights.max() - heights.min() > 0.1


def test_frames_that_cannot_be_rendered_are_a_note(monkeypatch):
    def fail(*_):
        raise VideoError("no pictures: no <driver>; install one")

    without_plots(monkeypatch)
    monkeypatch.setattr(report, "write_pictures", fail)
    page = report_html("go2", "", [eval_result("a", [0.1])])
    assert "No frames of a: no pictures: no &lt;driver&gt;; install one" in page and '"pass">passed' in page


def test_without_matplotlib_there_are_tables_and_a_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "rsl_rl.evaluation.plots")
    monkeypatch.delattr(rsl_rl.evaluation, "plots")
    page = report_html("go2", "", [eval_result("a", [0.1])])
    assert len(images(page)) == 1 and "No plots: " in page and "pip install &quot;rsl-rl-lib[sim]&quot;" in page
    assert "0.1000" in page


@pytest.fixture
def drawn(monkeypatch):
    """Have plots return what they draw instead of its file."""
    monkeypatch.setattr(plots, "_png", lambda figure: figure)


def test_the_bars_are_the_errors(drawn):
    figure = plots.plot_tracking_errors([eval_result("a", [0.1]), eval_result("b", [0.4])])
    heights = [[bar.get_height() for bar in axis.patches] for axis in figure.axes]
    assert heights == [[0.1, 1.1, 0.4, 1.4]] * 3 + [[0.2, 1.2, 0.8, 1.8]] * 3
    figure = plots.plot_falls([eval_result("a", [0.1]), eval_result("b", [0.4], falls=0.5)])
    assert [bar.get_height() for bar in figure.axes[0].patches] == [0, 0, 0, 0, 0, 0.5, 0, 0]


def test_perfect_tracking_is_the_diagonal(drawn):
    figure = plots.plot_velocities([eval_result("a", [0.1])])
    line, diagonal = figure.axes[0].lines
    assert line.get_xydata().tolist() == [[-0.5, -0.6], [0.5, 0.4]]
    assert diagonal.get_xydata().tolist() == [[-1, -1], [1, 1]]


def test_the_comparison_shows_limits_intervals_and_seeds(drawn):
    figure = plots.plot_comparison([eval_result("a", [0.1, 0.3]), eval_result("b", [0.2, 0.2])])
    (axis,) = (axis for axis in figure.axes if axis.get_title() == "lin_vel_error")
    seeds, interval, mean = (line.get_ydata() for line in axis.lines[:3])
    assert list(seeds) == [0.1, 0.3] and list(interval) == [0.1, 0.3] and list(mean) == [0.2]
    assert list(axis.lines[-1].get_ydata()) == [0.15, 0.15]


def test_the_gait_diagram_shows_when_feet_are_down(drawn):
    figure = plots.plot_walk(eval_result("a", [0.1]))
    bars = figure.axes[3].collections
    assert len(bars) == 4 and len(bars[0].get_paths()) == 25  # every second five steps of 50
    starts = [path.vertices[:, 0].min() for path in bars[0].get_paths()]
    assert starts == pytest.approx([0.02 * step for step in range(50) if step % 10 < 5])
    assert figure.axes[3].get_xlim() == pytest.approx((0.0, 1.0))
    fall = [line for line in figure.axes[0].lines if line.get_label() == "fall"]
    assert [line.get_xdata()[0] for line in fall] == pytest.approx([0.4])


@pytest.mark.slow
def test_two_checkpoints_and_two_runs_side_by_side(run_script, root, tmp_path):
    experiment = f"test-{uuid.uuid4().hex[:8]}"
    arguments = ("--task", "go2_flat", "--experiment_name", experiment)
    small = ("--num_envs", "4", "--seconds", "0.2", "--num_seeds", "2")
    try:
        train = ("scripts/train.py", *arguments, "--num_envs", "16", "--runner.num_steps_per_env", "8")
        done = run_script(*train, "--max_iterations", "1", "--run_name", "a")
        assert done.returncode == 0, done.stderr
        (run,) = (root / "logs" / experiment).iterdir()
        shutil.copytree(run, run.with_name("b"))

        done = run_script("scripts/evaluate.py", *arguments, *small, "--load_run", run.name, "--checkpoints", "0", "1")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout.strip().splitlines()[-1], parse_constant=lambda name: pytest.fail(name))
        checkpoints = result.pop("checkpoints")
        assert [one["checkpoint"][-10:] for one in checkpoints] == ["model_0.pt", "model_1.pt"]
        assert result == checkpoints[0] and {"fall_rate", "gate_passed", "env_steps", "action_jerk"} <= set(result)
        assert checkpoints[0]["intervals"]["mean_torque"][0] <= checkpoints[0]["mean_torque"]
        assert math.isclose(sum(one["samples"] for one in result["tracking"] if one["axis"] == "yaw_rate"), 2 * 4 * 10)
        assert f"report: {run / 'comparison.html'}" in done.stdout and "model_1: gate " in done.stdout
        assert "model_0" in (run / "comparison.html").read_text()

        report = tmp_path / "two.html"
        asked = ("--load-runs", run.name, "b", "--report", str(report))
        done = run_script("scripts/evaluate.py", *arguments, *small, *asked)
        assert done.returncode == 0, done.stderr
        one, other = json.loads(done.stdout.strip().splitlines()[-1])["checkpoints"]
        assert one.pop("checkpoint") != other.pop("checkpoint") and one == other  # the same robots and commands
        assert "b/model_1" in report.read_text()

        done = run_script("scripts/evaluate.py", *arguments, *small, "--load_run", "b")
        assert done.returncode == 0, done.stderr
        assert [path.name for path in run.with_name("b").glob("*.html")] == ["evaluation_1.html"]
        assert "checkpoints" not in json.loads(done.stdout.strip().splitlines()[-1])
    finally:
        shutil.rmtree(root / "logs" / experiment, ignore_errors=True)
