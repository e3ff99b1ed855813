"""Pages that are files of their own, made from the templates of this room."""

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template


def page_template(name: str) -> "Template":
    """The template of this name. It escapes what it is given: names, notes and statements are other people's text."""
    from jinja2 import Environment

    text = (files("membra.show") / "templates" / name).read_text(encoding="utf-8")
    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)
