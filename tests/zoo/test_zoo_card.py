"""Cards: what is written is what is read, damage is one error that names the field, and no text becomes markup."""

import json
from dataclasses import replace

import jsonschema
import pytest

from rsl_rl.zoo.card import card_json, card_of, card_schema, read_card, write_card
from rsl_rl.zoo.readme import card_markdown
from tests.zoo.example_entry import CARD


def test_card_written_and_read_is_the_same(tmp_path):
    path = write_card(CARD, tmp_path / "card.json")
    assert read_card(path) == CARD
    jsonschema.validate(json.loads(path.read_text()), card_schema())


def changed(path, value):
    """The card as plain values with one of them changed; ... removes it."""
    values = json.loads(json.dumps(card_json(CARD)))
    *parents, last = path.split("/")
    place = values
    for name in parents:
        place = place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return values


DAMAGE = {  # field -> value, and words of the message
    "format": (2, "format=2; this program reads 1"),
    "name": ("../dog", "name='../dog'"),
    "sha256": ("12", "sha256='12'"),
    "licence": (" ", "licence"),
    "owner": ("me", "unknown setting 'owner'"),
    "task": (..., "task is missing"),
    "training/seed": ("one", "training.seed='one'"),
    "training/seed ": (-1, "training.seed"),
    "training/command": ("rm -rf /", "training.command='rm -rf /'"),
    "training/checkpoint": ("newest", "training.checkpoint='newest'"),
    "training/threads": (0, "training.threads=0"),
    "training/versions": (["2.13"], "training.versions"),
    "training/samples": (1.5, "training.samples=1.5"),
    "evaluation/metrics/fall_rate": (float("nan"), "evaluation.metrics.fall_rate=nan"),
    "evaluation/gate/fall_rate": (0.1, "evaluation.gate.fall_rate"),
    "evaluation/endurance/with pushes/failures": (-1, "failures=-1"),
    "evaluation/endurance/with pushes/interval": ([1.0], "interval"),
}


@pytest.mark.parametrize("field", DAMAGE)
def test_card_with_damage_is_one_error_that_names_the_field(field, tmp_path):
    value, words = DAMAGE[field]
    values = changed(field.strip(), value)
    with pytest.raises(ValueError, match="card"):
        (tmp_path / "card.json").write_text(json.dumps(values))
        read_card(tmp_path / "card.json")
    with pytest.raises(ValueError) as found:
        card_of(values)
    assert words in str(found.value) and "\n" not in str(found.value)


@pytest.mark.parametrize("field", ["format", "owner", "task", "training/versions", "training/samples"])
def test_card_with_damage_of_its_form_does_not_fit_the_schema(field):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed(field, DAMAGE[field][0]), card_schema())


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_card_of_no_json_is_one_error_that_names_the_file(content, tmp_path):
    (tmp_path / "card.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"card\.json is damaged"):
        read_card(tmp_path / "card.json")


def test_readable_card_has_every_number_of_the_card():
    text = card_markdown(CARD)
    training = CARD.training
    for value in (
        CARD.sha256,
        training.command,
        training.commit,
        training.cpu,
        "2,703,360",
        "| dead_zone | - | 0.05 |",
    ):
        assert value in text
    assert (
        "| hours between failures | no failure | 5 |" in text
        and "| 95 % interval \\[h\\] | 5 to - | 1.7 to 24 |" in text
    )
    assert "The gate is missed" in text and "It falls on ice." in text and "joints are warm" in text


HOSTILE = "a|b <script>alert(1)</script> [x](javascript:y) `z` *w*"


def test_readable_card_shows_hostile_texts_as_they_are():
    training = replace(CARD.training, cpu=HOSTILE, versions={HOSTILE: HOSTILE}, commit="x\n\n# y")
    text = card_markdown(replace(CARD, robot=HOSTILE, licence=HOSTILE, known_weaknesses=(HOSTILE,), training=training))
    assert "<script>" not in text and "[x](" not in text and "\n# y" not in text
    rows = [line for line in text.splitlines() if line.startswith("| CPU")]
    assert len(rows) == 1 and rows[0].count("|") == 3
