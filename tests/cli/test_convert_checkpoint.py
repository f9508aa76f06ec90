"""The command convert-checkpoint."""

import errno
import os
from dataclasses import replace

import pytest
import torch

from rsl_rl.cli.main import main
from rsl_rl.config.policy import SymmetricActorCriticConfig
from rsl_rl.runners import DistillationRunner, OnPolicyRunner
from tests.compat.era_configs import v4, v5
from tests.compat.test_client_symmetry import MirroredV5
from tests.compat.test_era_distillation import distil_v5
from tests.compat.test_models import Doubled, config
from tests.era_clients import V5Env


def trained(cfg, path, env=V5Env):
    runner = OnPolicyRunner(env(), cfg)
    runner.learn(1)
    runner.save(str(path))
    return runner


@pytest.fixture
def convert(tmp_path, capsys):
    """Return a function that runs the command in this process; its result are the exit code and what was printed."""

    def run(source, target, version):
        try:
            code = main(["convert-checkpoint", str(tmp_path / source), str(tmp_path / target), "--to", version])
        except SystemExit as stop:
            code = stop.code
        return code, capsys.readouterr()

    return run


def test_convert_checkpoint_in_a_process_writes_a_file_that_its_version_reads(run_script, tmp_path):
    runner = trained(v5(), tmp_path / "ours.pt")
    words = ("-m", "rsl_rl", "convert-checkpoint", "ours.pt", "new/theirs.pt", "--to", "5.4")
    done = run_script(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "new/theirs.pt: ours.pt for rsl_rl 5.4\n"), done.stderr
    state = torch.load(tmp_path / "new" / "theirs.pt", weights_only=True)
    assert torch.equal(state["actor_state_dict"]["mlp.0.weight"], runner.alg.policy.actor[0].weight)


@pytest.mark.parametrize("version", ["2.0", "3.3", "4.0", "5.5"])
def test_convert_checkpoint_and_back_acts_equally(version, convert, tmp_path):
    runner = trained(v5(), tmp_path / "ours.pt")
    assert convert("ours.pt", "theirs.pt", version)[0] == 0
    assert convert("theirs.pt", "back.pt", "native")[0] == 0
    other = OnPolicyRunner(V5Env(), v5())
    for name in ("theirs.pt", "back.pt"):
        other.load(str(tmp_path / name))
        obs = runner.env.get_observations()
        torch.testing.assert_close(other.alg.policy.act_inference(obs), runner.alg.policy.act_inference(obs))


def test_a_symmetric_policy_becomes_a_plain_one_that_acts_equally(convert, tmp_path, small_cfg):
    sizes = {"actor_hidden_dims": (16, 8), "critic_hidden_dims": (16, 8)}
    policy = SymmetricActorCriticConfig(actor_groups=("actor",), critic_groups=("critic",), init_noise_std=0.5, **sizes)
    symmetric = trained(replace(small_cfg, policy=policy), tmp_path / "ours.pt", MirroredV5)
    with torch.no_grad():
        symmetric.alg.policy.std.copy_(torch.tensor([0.4, 0.8]))
    symmetric.save(str(tmp_path / "ours.pt"))
    cfg = v5()
    for name in ("actor", "critic"):
        cfg[name]["obs_normalization"] = False
    assert convert("ours.pt", "theirs.pt", "5.4")[0] == 0
    plain = OnPolicyRunner(V5Env(), cfg)
    plain.load(str(tmp_path / "theirs.pt"))
    obs = {"actor": torch.randn(8, 3), "critic": torch.randn(8, 5)}
    policies = symmetric.alg.policy, plain.alg.policy
    for act in ("act_inference", "evaluate"):
        one, other = (getattr(p, act)(obs) for p in policies)
        torch.testing.assert_close(other, one)
    torch.testing.assert_close(policies[1].noise_std(), policies[0].noise_std(), atol=1e-4, rtol=1e-4)
    plain.learn(1)  # the optimiser starts afresh, over the same parameters


@pytest.mark.parametrize(("version", "name"), [("5.4", "distribution.std_param"), ("4.0", "std")])
def test_networks_of_a_client_are_written_for_their_versions(version, name, convert, tmp_path):
    runner = trained(config(Doubled, critic=Doubled), tmp_path / "ours.pt")
    assert convert("ours.pt", "theirs.pt", version)[0] == 0
    state = torch.load(tmp_path / "theirs.pt", weights_only=True)
    assert torch.equal(state["actor_state_dict"]["mlp.0.weight"], runner.alg.policy.actor.mlp[0].weight)
    assert name in state["actor_state_dict"] and state["iter"] == 0
    code, printed = convert("ours.pt", "old.pt", "3.0")
    assert code == 2 and "derived from MLPModel, CNNModel or RNNModel; convert to 4.0 or later" in printed.err


def test_what_does_not_fit_is_one_line_and_leaves_no_file(convert, tmp_path):
    trained(v4(), tmp_path / "ours.pt")
    cfg = v5()
    cfg["actor"]["distribution_cfg"] = {"class_name": "HeteroscedasticGaussianDistribution", "init_std": 0.5}
    trained(cfg, tmp_path / "hetero.pt")
    DistillationRunner(V5Env(), distil_v5()).save(str(tmp_path / "student.pt"))
    (tmp_path / "text.pt").write_text("no checkpoint")
    (tmp_path / "there.pt").write_text("")
    for source, target, version, words in (
        ("ours.pt", "new.pt", "1.0.2", "ours.pt cannot be converted to 1.0.2: rsl_rl 1 has no running normalisation"),
        ("ours.pt", "new.pt", "6.0", "to='6.0' is no version of rsl_rl known here"),
        ("ours.pt", "there.pt", "5.4", "there.pt exists; name a new file"),
        ("nothing.pt", "new.pt", "5.4", "there is no checkpoint"),
        ("text.pt", "new.pt", "5.4", "is damaged or not a checkpoint"),
        ("hetero.pt", "new.pt", "5.4", "its standard deviation depends on the state"),
        ("student.pt", "new.pt", "5.4", "it is a distillation"),
    ):
        code, printed = convert(source, target, version)
        assert code == 2 and words in printed.err and printed.err.count("\n") == 1, printed.err
    assert not (tmp_path / "new.pt").exists() and (tmp_path / "there.pt").read_text() == ""


def test_help_lists_the_command(capsys):
    assert main(["--help"]) == 0 and "convert-checkpoint write a checkpoint" in capsys.readouterr().out


@pytest.mark.parametrize("version", ["2.0", "5.4", "native"])
def test_convert_checkpoint_onto_a_full_disk_is_one_line_and_leaves_no_file(version, convert, tmp_path, monkeypatch):
    trained(v5(), tmp_path / "ours.pt")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    code, printed = convert("ours.pt", "theirs.pt", version)
    assert code == 2 and printed.err.count("\n") == 1 and "No space left on device" in printed.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours.pt"]
