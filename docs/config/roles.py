"""Hook of MkDocs: show the roles of docstrings, such as :class:`VecEnv`, as code."""

import re


def on_page_content(html, **_):
    """Remove the names of roles before code."""
    return re.sub(r":(?:class|meth|func|attr|mod):(?=<code>)", "", html)
