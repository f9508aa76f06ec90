"""`rsl-rl zoo`: an entry is made of a finished run, shown, evaluated and reproduced; what is wrong is one line."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import rsl_rl.zoo
from rsl_rl.cli.doctor import find_model
from rsl_rl.cli.experiments import Experiments, import_shipped
from rsl_rl.cli.main import main
from rsl_rl.cli.zoo.command import short_name
from rsl_rl.zoo.entries import Zoo, sha256_of
from tests.quick import quick_commands
from tests.zoo.example_entry import write_example

TINY = (
    "--num_envs", "8", "--runner.num_steps_per_env", "4", "--policy.actor_hidden_dims", "16",
    "--policy.critic_hidden_dims", "16", "--max_iterations", "2", "--logger", "none", "--seed", "5",
)  # fmt: skip
SHORT = ("--no_film", "--num_envs", "2", "--seconds", "0.1", "--num_seeds", "1", "--robot_hours", "0")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a run of two iterations of go2_flat, and one of toy."""
    folder = tmp_path_factory.mktemp("runs")
    assert main(["train", "--task", "go2_flat", *TINY, "--log_root", str(folder)]) == 0
    assert main(["train", "--task", "toy", "--max_iterations", "1", "--log_root", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def tiny_zoo(runs, tmp_path_factory):
    """A zoo with an entry made of the run of go2_flat."""
    folder = tmp_path_factory.mktemp("zoos") / "zoo"
    (run,) = (runs / "go2_flat").iterdir()
    words = ["--zoo", str(folder), "--name", "tiny", "--licence", "CC0-1.0", "--weakness", "It falls."]
    with quick_commands():
        assert main(["zoo", "add", str(run), *words, *SHORT]) == 0
    return folder


def test_entry_of_a_run_says_what_trained_it_and_what_was_measured(tiny_zoo):
    card = Zoo(tiny_zoo).find("tiny").card
    training, evaluation = card.training, card.evaluation
    words = training.command.split()
    assert words[:4] == ["rsl-rl", "train", "--task", "go2_flat"] and "--log_root" not in words
    assert words.count("--seed") == 1 and (training.seed, training.samples, training.checkpoint) == (5, 64, 2)
    assert training.versions["torch"] and training.instruction_set and training.threads >= 1
    assert evaluation.robots == 2 and evaluation.seeds == (1005,) and evaluation.endurance == {}
    assert set(evaluation.disturbances) == {"none", "heavy_trunk", "slippery", "delay", "weak_motors", "pushes"}
    assert evaluation.gate["fall_rate"].measured == evaluation.metrics["fall_rate"]
    assert (card.licence, card.known_weaknesses) == ("CC0-1.0", ("It falls.",))
    made_by = json.loads((tiny_zoo / "tiny" / "policy.json").read_text())["provenance"]
    assert made_by["command"] == training.command and made_by["checkpoint"] == "model_2.pt"


def test_exported_policy_of_equal_weights_has_equal_bytes(tiny_zoo, runs, tmp_path, rsl_rl_here):
    (run,) = (runs / "go2_flat").iterdir()
    shutil.copytree(run, tmp_path / "moved" / "go2_flat" / "another name")
    assert rsl_rl_here("export", "--task", "go2_flat", "--log_root", str(tmp_path / "moved")) == 0
    (onnx,) = (tmp_path / "moved").rglob("policy.onnx")
    assert sha256_of(onnx) == Zoo(tiny_zoo).find("tiny").card.sha256


def test_zoo_list_has_a_line_on_each_policy_and_names_damaged_ones(tiny_zoo, tmp_path, rsl_rl_here, capsys):
    shutil.copytree(tiny_zoo, tmp_path / "zoo")
    assert rsl_rl_here("zoo", "list", "--zoo", str(tmp_path / "zoo")) == 0
    assert "tiny" in capsys.readouterr().out
    (write_example(tmp_path / "zoo", "broken") / "policy.onnx").write_bytes(b"")
    assert rsl_rl_here("zoo", "list", "--zoo", str(tmp_path / "zoo")) == 1
    out = capsys.readouterr().out
    assert "tiny" in out and "policy.onnx is not the policy of its card" in out


@pytest.mark.parametrize(
    "robot, name", [("go2", "go2"), ("rsl_rl_zoo.robots.go1.flat:ROBOT", "go1"), ("mine:ROBOT", "mine")]
)
def test_zoo_list_has_short_names_of_robots(robot, name):
    assert short_name(robot) == name


def test_zoo_policy_is_played_and_evaluated(tiny_zoo, tmp_path, rsl_rl_here, capsys):
    place = ("--zoo", str(tiny_zoo))
    before = sorted(path.name for path in (tiny_zoo / "tiny").iterdir())
    film = ("--folder", str(tmp_path / "film"), "--seconds", "0.1", "--no_video")
    assert rsl_rl_here("zoo", "play", "tiny", *film, *place) == 0
    assert "robot 1: " in capsys.readouterr().out
    assert rsl_rl_here("zoo", "evaluate", "tiny", "--num_envs", "2", "--seconds", "0.1", *place) == 0
    assert "fall_rate" in json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert sorted(path.name for path in (tiny_zoo / "tiny").iterdir()) == before


def test_zoo_page_has_the_facts_of_the_card(tiny_zoo, tmp_path, rsl_rl_here, monkeypatch):
    from rsl_rl.viz import page

    template = tmp_path / "template.html"
    template.write_bytes(b'<script type="application/json" id="page-data">{}</script>')
    monkeypatch.setattr(page, "TEMPLATE", template)
    path = tmp_path / "walk.html"
    assert rsl_rl_here("zoo", "page", "tiny", str(path), "--zoo", str(tiny_zoo)) == 0
    (robot,) = page.read_robots(path)
    facts = {fact["name"]: fact["value"] for fact in robot["card"]}
    assert facts["Licence"] == "CC0-1.0" and facts["Known weaknesses"] == "It falls." and facts["Seed"] == "5"
    assert robot["noise"]["joint_pos"] == 0.01  # of the training


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("play", "tyni"), "has no policy 'tyni'; it has tiny. Did you mean 'tiny'?"),
        (("fly", "tiny"), "invalid choice: 'fly'"),
        (("play",), "the following arguments are required: name"),
        (("play", "tiny", "--secnds", "3"), "--secnds"),
        (("evaluate", "tiny", "--load_run", "x"), "--policy names the policies; leave out --load_run"),
        (("play", "tiny", "--follow"), "--policy is shown without a run; leave out --follow"),
        (("add", "no_such_run", "--licence", "x"), "no_such_run is not the folder of a run"),
        (("add", "no_such_run"), "--licence"),
        (("add", "RUN", "--licence", " "), "--licence is empty"),
        (("add", "RUN", "--licence", "x", "--num_envs", "-1"), "--num_envs -1: give a positive number"),
    ],
)
def test_zoo_with_wrong_words_is_one_line(words, message, runs, tiny_zoo, rsl_rl_here, capsys):
    (run,) = (runs / "go2_flat").iterdir()
    words = [str(run) if word == "RUN" else word for word in words]
    assert rsl_rl_here("zoo", *words, "--zoo", str(tiny_zoo)) == 2
    written = capsys.readouterr()
    assert message in written.err and written.err.count("\n") == 1 and "policy:" not in written.out  # no export


def test_zoo_reproduce_of_a_checkpoint_after_the_training_is_one_line(tiny_zoo, tmp_path, rsl_rl_here, capsys):
    shutil.copytree(tiny_zoo / "tiny", tmp_path / "tiny")
    card = json.loads((tmp_path / "tiny" / "card.json").read_text())
    card["training"]["checkpoint"] = 3
    (tmp_path / "tiny" / "card.json").write_text(json.dumps(card))
    assert rsl_rl_here("zoo", "reproduce", "tiny", "--zoo", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert "the checkpoint 3, and its config.yaml ends with max_iterations=2" in error and error.count("\n") == 1


def test_zoo_add_refuses_runs_that_no_card_describes(runs, tmp_path, rsl_rl_here, capsys):
    (run,), (toy,) = (runs / "go2_flat").iterdir(), (runs / "toy").iterdir()
    licence = ("--licence", "x", "--zoo", str(tmp_path / "zoo"))

    def refused(folder, message):
        assert rsl_rl_here("zoo", "add", str(folder), *licence) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1

    refused(toy, "'toy' is a task without a legged robot")
    for name, message in (
        ("provenance.json", "has no provenance.json, which says what trained it"),
        ("model_2.pt", "has not reached the end of its training"),
    ):
        shutil.copytree(run, tmp_path / name)
        (tmp_path / name / name).unlink()
        refused(tmp_path / name, message)
    shutil.copytree(run, tmp_path / "resumed")
    shutil.copy(run / "config.yaml", tmp_path / "resumed" / "config_from_1.yaml")
    refused(tmp_path / "resumed", "was resumed after iteration 1")
    assert list((tmp_path / "zoo").glob("*")) == []


def test_zoo_push_without_the_package_says_what_to_install(tiny_zoo, rsl_rl_here, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    monkeypatch.delitem(__import__("sys").modules, "rsl_rl.zoo.hub", raising=False)
    monkeypatch.delattr(rsl_rl.zoo, "hub", raising=False)
    assert rsl_rl_here("zoo", "push", "tiny", "user/zoo", "--zoo", str(tiny_zoo)) == 2
    error = capsys.readouterr().err
    assert "pip install 'rsl-rl-lib[hub]'" in error and error.count("\n") == 1


def test_zoo_that_is_a_file_is_one_line(rsl_rl_here, tmp_path, capsys):
    (tmp_path / "zoo").write_text("")
    assert rsl_rl_here("zoo", "list", "--zoo", str(tmp_path / "zoo")) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path / 'zoo'} is not a folder" in error and error.count("\n") == 1


@pytest.mark.parametrize("name, task", [("solo12", "Solo12Flat"), ("go1", "Go1Flat")])
def test_zoo_robot_is_built_by_the_name_of_its_task(name, task, root):
    cfg = Experiments().load(f"rsl_rl_zoo.robots.{name}.flat:{task}")()
    env = replace(cfg.env, num_envs=1).build("cpu", seed=1)
    model = root / "zoo" / "robots" / name / f"{name}.xml"
    assert env.robot.model_path == model and env.num_actions == 12
    described = env.describe_interface(["policy"])
    assert described["simulation"]["model"] == f"rsl_rl_zoo/robots/{name}/{name}.xml"
    assert find_model(described) == model


def test_zoo_of_the_checkout_is_found_without_a_flag(root):
    assert Path(import_shipped("rsl_rl_zoo").__file__).parent == root / "zoo"


@pytest.mark.slow
def test_entry_has_the_endurance_under_a_joystick(runs, tmp_path, rsl_rl_here):
    (run,) = (runs / "go2_flat").iterdir()
    place = ("--zoo", str(tmp_path / "zoo"), "--licence", "x")
    assert rsl_rl_here("zoo", "add", str(run), *place, *SHORT[:-1], "0.01") == 0
    evaluation = Zoo(tmp_path / "zoo").find("go2_flat").card.evaluation
    assert set(evaluation.endurance) == {"without pushes", "with pushes"} and not evaluation.gate_passed
    test = evaluation.endurance["without pushes"]
    assert test.failures > 0 and test.hours_between_failures == pytest.approx(test.robot_hours / test.failures)
    assert evaluation.gate["failures_per_hour"].measured == pytest.approx(1 / test.hours_between_failures)


@pytest.mark.slow
def test_zoo_film_is_an_animated_picture_of_the_entry(tiny_zoo, tmp_path, rsl_rl_here):
    image = pytest.importorskip("PIL.Image")
    shutil.copytree(tiny_zoo, tmp_path / "zoo")
    assert rsl_rl_here("zoo", "film", "tiny", "--zoo", str(tmp_path / "zoo")) == 0
    entry = Zoo(tmp_path / "zoo").find("tiny")
    with image.open(entry.folder / entry.card.film) as film:
        assert film.n_frames == 75 and film.size == (320, 240)
    assert (entry.folder / "film.webp").stat().st_size < 400_000


@pytest.mark.slow
def test_zoo_reproduce_gives_the_same_file_or_says_what_differs(tiny_zoo, tmp_path, run_script):
    zoo = tmp_path / "zoo"
    shutil.copytree(tiny_zoo, zoo)
    place = ("--zoo", str(zoo), "--log_root", str(tmp_path / "runs"), "--robot_hours", "0")
    done = run_script("-m", "rsl_rl", "zoo", "reproduce", "tiny", *place)
    assert done.returncode == 0 and "equal: " in done.stdout, done.stdout + done.stderr
    card = zoo / "tiny" / "card.json"
    values = json.loads(card.read_text())
    values["training"]["command"] = values["training"]["command"].replace("--seed 5", "--seed 6")
    values["training"]["versions"]["torch"] = "2.1.0"
    card.write_text(json.dumps(values))
    done = run_script("-m", "rsl_rl", "zoo", "reproduce", "tiny", *place)
    assert done.returncode == 1 and "different: " in done.stdout, done.stdout + done.stderr
    assert "differs: torch is 2." in done.stdout and "differs: seed: 5 before, 6 now" in done.stdout
    assert len(json.loads(done.stdout.strip().splitlines()[-1])["checkpoints"]) == 2
