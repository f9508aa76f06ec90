"""Foreign names stay text, in whatever is written with them."""

import ast
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rsl_rl.utils.config_io import read_yaml, write_yaml
from rsl_rl.utils.text import (
    file_name,
    html_text,
    is_utf8,
    markdown_cell,
    one_line,
    printable,
    python_text,
    xml_comment,
)

PIECES = [
    '"', "'", '"""', "\\", "\n", "\r", "\x00", "\x1b[31m", "\u202e", "\u2028", "\udcff", "--", "-->", "]]>", "<b>",
    "|", "`", "*", "_", "[a](b)", "{x}", "%s", "#", "../", "/", " ", "\t", "é", "😀", "a", "0", "\\N{", "\\x",
    ": ", "- ", "&amp;",
]  # fmt: skip
hostile = st.one_of(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.text(st.characters(codec=None)))
short = st.text(st.characters(codec=None), max_size=12)
CODE = 'b",*([],__import__("os").system("false"))[0],"c'


@given(hostile)
@example(CODE)
def test_python_text_is_a_literal_of_the_text(text):
    source = f"x = ({python_text(text)},)\n".encode()
    assert ast.literal_eval(source.decode().partition("=")[2].strip()) == (text,)
    assert len(ast.parse(source).body) == 1


@given(hostile)
def test_one_line_in_a_comment_of_python_is_no_code(text):
    module = ast.parse(f"# {one_line(text)}\n".encode())
    assert module.body == []


@given(hostile)
def test_printable_text_has_one_line_and_controls_no_terminal(text):
    for shown in (printable(text), one_line(text)):
        assert shown.isprintable() and shown.encode().decode() == shown
    assert printable(printable(text)) == printable(text)


@given(hostile)
def test_xml_comment_holds_nothing_else(text):
    root = ElementTree.fromstring(f"<a>{xml_comment(text)}</a>")
    assert len(root) == 0 and not (root.text or "").strip()


class Page(HTMLParser):
    """The tags, attributes and texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, attributes))

    def handle_data(self, data):
        self.text += data


@given(hostile)
def test_html_text_is_text_in_elements_and_attributes(text):
    page = Page(f'<td title="{html_text(text)}">{html_text(text)}</td>')
    assert page.tags == [("td", [("title", one_line(text))])] and page.text == one_line(text)
    assert "|" not in html_text(text)


@given(hostile, hostile)
@example("\\", "|")
def test_markdown_cell_is_rendered_as_its_text(first, second):
    table = f"| name | other |\n| --- | --- |\n| {markdown_cell(first)} | {markdown_cell(second)} |\n"
    page = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(table)
    cells = [Page(cell) for cell in re.findall("<td>(.*?)</td>", page)]
    assert [cell.text for cell in cells] == [one_line(first), one_line(second)]
    assert not any(cell.tags for cell in cells)


@given(hostile)
def test_file_name_stays_in_its_folder(tmp_path_factory, text):
    folder = tmp_path_factory.getbasetemp() / "names"
    folder.mkdir(exist_ok=True)
    path = folder / f"{file_name(text)}_1.json"
    path.write_text("")
    assert [file.name for file in folder.iterdir()] == [path.name]
    path.unlink()


@given(short, short)
def test_file_names_of_different_texts_differ(first, second):
    assert (file_name(first) == file_name(second)) == (first == second)


@dataclass(frozen=True)
class Named:
    """A config with a foreign name."""

    name: str
    numbers: dict


@given(hostile)
def test_name_in_a_config_file_is_read_as_it_was(tmp_path_factory, text):
    folder = tmp_path_factory.getbasetemp() / "configs"
    folder.mkdir(exist_ok=True)
    path = folder / "config.yaml"
    write_yaml(Named(text, {text: 1.0}), path)
    assert read_yaml(path) == {"name": text, "numbers": {text: 1.0}}


@pytest.mark.parametrize(("name", "fits"), [("dög", True), ("dog\udcff", False)])
def test_name_that_is_not_utf8_is_found(tmp_path, name, fits):
    assert is_utf8(tmp_path / name) is fits
