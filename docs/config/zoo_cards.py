"""Hook of MkDocs: show the films and numbers of the policies of zoo/ where a page says `<!-- zoo -->`."""

import html
import shutil
from pathlib import Path

from rsl_rl.cli.zoo.command import hours_of
from rsl_rl.zoo.entries import Zoo

ZOO = Zoo(Path(__file__).resolve().parents[2] / "zoo")

GRID = "display: grid; grid-template-columns: repeat(auto-fill, minmax(220px, 1fr)); gap: 1rem"
CARD = "border: 1px solid #8886; border-radius: 8px; overflow: hidden"


def on_page_markdown(markdown, **_):
    """Put the cards at the marked place."""
    if "<!-- zoo -->" not in markdown:
        return markdown
    cards = "\n".join(card_html(ZOO.find(name)) for name in ZOO.names())
    return markdown.replace("<!-- zoo -->", f'<div style="{GRID}">\n{cards}\n</div>')


def card_html(entry):
    """Return the card of an entry with its film."""
    card = entry.card
    tests = card.evaluation.endurance
    lines = [
        f"{card.training.samples / 1e6:.1f} M samples in {card.training.seconds / 60:.0f} min",
        f"gate {'passed' if card.evaluation.gate_passed else 'missed'}",
        *(f"{hours_of(test)} h between failures {name}" for name, test in tests.items()),
        card.licence,
    ]
    film = f'<img src="zoo/{card.name}.webp" alt="{html.escape(card.name)} walks" style="width: 100%">'
    text = "<br>".join(map(html.escape, lines))
    body = f'<div style="padding: 0.2rem 0.8rem 0.8rem"><strong>{html.escape(card.name)}</strong><br>{text}</div>'
    return f'<div style="{CARD}">{film if card.film else ""}{body}</div>'


def on_post_build(config, **_):
    """Copy the films to the site."""
    folder = Path(config["site_dir"]) / "zoo"
    folder.mkdir(exist_ok=True)
    for name in ZOO.names():
        entry = ZOO.find(name)
        if entry.card.film:
            shutil.copy(entry.folder / entry.card.film, folder / f"{name}.webp")
