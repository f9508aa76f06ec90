import pytest

from rsl_rl.utils import registry
from rsl_rl.utils.registry import Registry, import_object

COLOURS = Registry("colour", {"red": "math:pi", "blue": "math:tau", "lost": "math:nowhere"})


def test_names_and_paths_load():
    import math

    assert COLOURS.load("red") == math.pi
    assert COLOURS.load("math:e") == math.e
    assert COLOURS.names() == ["blue", "lost", "red"]


def test_an_unknown_name_lists_the_known_and_suggests():
    with pytest.raises(ValueError, match=r"unknown colour 'bleu'; known: blue, lost, red. Did you mean 'blue'?"):
        COLOURS.load("bleu")


@pytest.mark.parametrize(("path", "words"), [("math", "package.module:name"), ("math:pie", "Did you mean 'pi'")])
def test_a_bad_path_says_what_is_wrong(path, words):
    with pytest.raises(ValueError, match=words):
        import_object(path)


def test_import_object_of_a_module_that_was_moved_finds_it_at_its_new_place(monkeypatch):
    monkeypatch.setattr(registry, "MOVED", {"old_math": "math"})
    assert import_object("old_math:pi") == COLOURS.load("red")
