"""MkDocs hooks for the pages of docs/ (`hooks` of mkdocs.yml).

The command reference is generated from `--help`. A link whose text is a file name gets the title of its page; a link to
a file that is not a page becomes plain text. A flowchart that is a chain is rendered as HTML, without a third-party
script.
"""

import os
import re
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

COMMANDS = "<!-- commands -->"
WIDTH = 96  # characters of a line of help


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Transform the Markdown of a page; MkDocs calls this before rendering."""
    docs = Path(config["docs_dir"])
    text = markdown.replace(COMMANDS, command_reference()) if COMMANDS in markdown else markdown
    text = re.sub(r"^```mermaid\n(.*?)^```$", lambda found: chain(found[1]), text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(?<=\d) / (?=\d)", "\N{NO-BREAK SPACE}/\N{NO-BREAK SPACE}", text)  # two scores stay in one line
    return linked(text, (docs / page.file.src_uri).parent, docs)


def command_reference() -> str:
    """Return the help of every command as Markdown."""
    from membra.cli import cli

    parts = []
    for name, command in sorted(cli.commands.items()):
        context = click.Context(
            command, info_name=f"membra {name}", max_content_width=WIDTH, terminal_width=WIDTH, **_settings(cli)
        )
        parts.append(f"## membra {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def linked(text: str, folder: Path, docs: Path) -> str:
    """Replace links out of `docs` by their text, and file names in link texts by page titles; the page is in `folder`.

    >>> linked("[a](b.md), [the code](../src/c.py)", Path("/docs"), Path("/docs"))
    '[a](b.md), the code'
    """

    def kept(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / found[2].split("#")[0]))
        if not target.is_relative_to(docs):
            return found[1]
        if found[1].endswith(".md") and target.is_file() and "#" not in found[2]:
            return f"[{title(target)}]({found[2]})"
        return found[0]

    return re.sub(r"(?<!!)\[((?:[^\[\]]|`[^`]*`)+)\]\((?!https?:|mailto:|#)([^)\s]+)\)", kept, text)


def title(page: Path) -> str:
    """Return the first heading of a page."""
    found = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else page.name


def chain(flowchart: str) -> str:
    """Render a Mermaid flowchart that is a single chain as HTML boxes; return any other as a text block.

    >>> chain("flowchart LR\\n    a([in]) --> b\\n    b -->|word| c\\n")
    '<p class="rooms"><b class="round">in</b><i></i><b>b</b><i>word</i><b>c</b></p>'
    """
    arrows = re.findall(r"^\s+(\w+)(\(\[.*?\]\))? -->(?:\|(.*?)\|)? (\w+)(\(\[.*?\]\))?$", flowchart, re.MULTILINE)
    if not arrows or any(one[3] != other[0] for one, other in pairwise(arrows)):
        return f"```text\n{flowchart}```"

    def box(name: str, label: str) -> str:
        return f'<b class="round">{escape(label[2:-2])}</b>' if label else f"<b>{escape(name)}</b>"

    boxes = [f"{box(name, label)}<i>{escape(word)}</i>" for name, label, word, _, _ in arrows]
    return f'<p class="rooms">{"".join(boxes)}{box(*arrows[-1][3:])}</p>'


def _settings(group: click.Group) -> dict[str, Any]:
    """Return the context settings of the group that its commands inherit."""
    kept = ("help_option_names", "token_normalize_func")
    return {name: value for name, value in group.context_settings.items() if name in kept}
