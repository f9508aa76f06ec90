"""The syntax of --space: what it means, and the line that says what is wrong."""

import pytest

from rsl_rl.cli.command_line import parse
from rsl_rl.cli.errors import UsageError
from rsl_rl.cli.sweep.command import Flags
from rsl_rl.cli.sweep.search_space import Choices, Interval, flags_of, parse_space


def recall(more):
    return parse(Flags, "", from_run=False, argv=["--task", "recall", *more]).cfg


PARAMETERS = {
    "algorithm.learning_rate=log:1e-4..1e-2": Interval("algorithm.learning_rate", 1e-4, 1e-2, False, True),
    "algorithm.gamma=0.9..0.99": Interval("algorithm.gamma", 0.9, 0.99, False, False),
    "algorithm.num-learning-epochs=2..8": Interval("algorithm.num_learning_epochs", 2, 8, True, False),
    "num_envs=log:16..256": Interval("env.num_envs", 16, 256, True, True),
    "algorithm.entropy_coef=0.0, 0.003,0.01": Choices("algorithm.entropy_coef", ("0.0", "0.003", "0.01"), False),
    "policy.actor_hidden_dims=64 64,128": Choices("policy.actor_hidden_dims", ("64 64", "128"), False),
    "algorithm.joint_grad_norm=true,False": Choices("algorithm.joint_grad_norm", ("true", "False"), True),
    "policy.rnn_type=gru,lstm": Choices("policy.rnn_type", ("gru", "lstm"), False),
}


@pytest.mark.parametrize("text", PARAMETERS)
def test_space_text_gives_parameter(text):
    assert parse_space([text], recall) == [PARAMETERS[text]]


@pytest.mark.parametrize(
    ("text", "value", "field", "expected"),
    [
        ("algorithm.learning_rate=log:1e-4..1e-2", 0.1 + 0.2 - 0.299, "learning_rate", 0.1 + 0.2 - 0.299),
        ("algorithm.num_learning_epochs=2..8", 3, "num_learning_epochs", 3),
        ("algorithm.joint_grad_norm=true,false", "false", "joint_grad_norm", False),
        ("algorithm.joint_grad_norm=true,false", "true", "joint_grad_norm", True),
    ],
)
def test_flags_of_a_value_give_a_config_with_exactly_this_value(text, value, field, expected):
    (parameter,) = parse_space([text], recall)
    assert getattr(recall(flags_of(parameter, value)).algorithm, field) == expected


SIGMAS = tuple(f"env.rewards.terms.{term}.params.tracking_sigma" for term in ("track_lin_vel", "track_yaw_rate"))


def walking(more):
    return parse(Flags, "", from_run=False, argv=["--task", "go2_flat", *more]).cfg


@pytest.mark.parametrize(
    ("text", "parameter"),
    [
        (
            "env.rewards.weights.action_rate=-0.01,-0.02",
            Choices("env.rewards.terms.action_rate.weight", ("-0.01", "-0.02"), False),
        ),
        ("env.randomization.push_interval=4..8", Interval("env.randomization.terms.push.period", 4, 8, False, False)),
        (
            "env.rewards.tracking_sigma=0.2, 0.3",
            Choices("env.rewards.tracking_sigma", ("0.2", "0.3"), False, SIGMAS),
        ),
        (
            "env.rewards.tracking-sigma=log:0.1..0.5",
            Interval("env.rewards.tracking_sigma", 0.1, 0.5, False, True, paths=SIGMAS),
        ),
    ],
)
def test_former_name_in_the_space_is_the_present_fields_with_a_note(text, parameter, capsys):
    assert parse_space([text], walking) == [parameter]
    fields = ", ".join(parameter.paths or [parameter.field])
    assert f"note: --space {text.partition('=')[0].replace('-', '_')} is deprecated; it sets {fields}\n" in (
        capsys.readouterr().out
    )


def test_former_name_of_several_fields_sets_all_that_the_task_has():
    (parameter,) = parse_space(["env.rewards.tracking_sigma=0.2,0.3"], walking)
    terms = walking(flags_of(parameter, "0.3")).env.rewards.terms
    assert [terms[term].params["tracking_sigma"] for term in ("track_lin_vel", "track_yaw_rate")] == [0.3, 0.3]
    (parameter,) = parse_space(["env.rewards.air_time_target=0.2,0.3"], walking)
    assert flags_of(parameter, "0.3") == ["--env.rewards.terms.feet_air_time.params.air_time_target", "0.3"]


def test_field_that_is_named_by_a_former_name_too_is_an_error():
    with pytest.raises(ValueError, match=f"names '{SIGMAS[1]}' twice"):
        parse_space([f"{SIGMAS[1]}=0.2,0.3", "env.rewards.tracking_sigma=0.2,0.3"], walking)


def test_flags_of_a_tuple_are_words():
    (parameter,) = parse_space(["policy.actor_hidden_dims=64 32,8"], recall)
    assert recall(flags_of(parameter, "64 32")).policy.actor_hidden_dims == (64, 32)


WRONG = {
    "algorithm.learning_rat=1,2": "there is no field 'algorithm.learning_rat'; 'algorithm' has .* Did you mean "
    "'algorithm.learning_rate'|Did you mean 'learning_rate'",
    "algorithm=1,2": "'algorithm' is not one setting; name one of its fields: ",
    "algorithm.gamma": "write FIELD=VALUES, such as ",
    "algorithm.gamma=": "write FIELD=VALUES, such as ",
    "algorithm.gamma=0.9..": r"a range is LOW..HIGH or log:LOW..HIGH, with two numbers",
    "algorithm.gamma=log:0.9": r"a range is LOW..HIGH or log:LOW..HIGH, with two numbers",
    "algorithm.gamma=0.99..0.9": "a lower one first; got 0.99 and 0.9",
    "algorithm.gamma=0.9..inf": "finite numbers",
    "algorithm.gamma=log:0..0.9": "a logarithmic range must be above 0, and starts at 0",
    "algorithm.gamma=0.9,,0.99": "one of the choices is empty",
    "algorithm.gamma=0.9,0.9": "a choice is named twice",
    "algorithm.gamma=0.9,0.90": "the choice 0.90 has the same value as another one",
    "algorithm.joint_grad_norm=true,maybe": "'maybe' is neither true nor false",
    "policy.actor_hidden_dims=8..64": "a range needs a field with one number",
    "seed=1,2": "seed cannot be searched; use --seeds",
    "runner.run_name=a,b": "runner.run_name cannot be searched; a sweep names its runs itself",
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_space_is_one_sentence_that_names_it(text):
    with pytest.raises(ValueError, match=WRONG[text]) as caught:
        parse_space([text], recall)
    assert str(caught.value).startswith(f"--space {text}: ")


def test_field_that_is_named_twice_is_an_error():
    with pytest.raises(ValueError, match=r"names 'algorithm\.gamma' twice"):
        parse_space(["algorithm.gamma=0.9,0.99", "algorithm.gamma=0.9..0.99"], recall)


@pytest.mark.parametrize("text", ["algorithm.gamma=0.9..1.5", "algorithm.gamma=0.9,x", "algorithm.clip_param=-1,0.2"])
def test_value_that_the_config_refuses_ends_the_program(text):
    with pytest.raises(UsageError) as caught:
        parse_space([text], recall)
    field = text.partition("=")[0]
    assert caught.value.code == 2 and field in caught.value.message and "\n" not in caught.value.message
