"""What the pages of docs/ need beyond Markdown when the site is built (`hooks` of mkdocs.yml).

The reference of the commands is made of `--help`. In a checkout a link names a file; on the site it has the title of
the page, or, where it leads to a file that is no page, only its words. A flowchart that is a chain is drawn without a
script of others.
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
    """MkDocs calls this with each page before it is rendered."""
    docs = Path(config["docs_dir"])
    text = markdown.replace(COMMANDS, command_reference()) if COMMANDS in markdown else markdown
    text = re.sub(r"^```mermaid\n(.*?)^```$", lambda found: chain(found[1]), text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(?<=\d) / (?=\d)", "\N{NO-BREAK SPACE}/\N{NO-BREAK SPACE}", text)  # two scores stay in one line
    return linked(text, (docs / page.file.src_uri).parent, docs)


def command_reference() -> str:
    """The help of every command, as Markdown."""
    from membra.cli import cli

    parts = []
    for name, command in sorted(cli.commands.items()):
        context = click.Context(
            command, info_name=f"membra {name}", max_content_width=WIDTH, terminal_width=WIDTH, **_settings(cli)
        )
        parts.append(f"## membra {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def linked(text: str, folder: Path, docs: Path) -> str:
    """The text of a page in `folder`; links that lead out of `docs` as plain words, those named by a file by its title.

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
    """The first heading of a page."""
    found = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else page.name


def chain(flowchart: str) -> str:
    """A Mermaid flowchart whose arrows form one row, as boxes; any other as it is written.

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
    """What the group tells its commands, less what is set here."""
    kept = ("help_option_names", "token_normalize_func")
    return {name: value for name, value in group.context_settings.items() if name in kept}
