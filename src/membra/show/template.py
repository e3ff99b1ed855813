"""Pages that are files of their own, made from the templates of this room."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template


def page_template(name: str) -> "Template":
    """The template of this name. It escapes what it is given: names, notes and statements are other people's text."""
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("membra.show")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True).get_template(name)
