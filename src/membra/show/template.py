"""Stand-alone HTML files, rendered from the templates of this room."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template


def page_template(name: str) -> "Template":
    """Return the template of this name. It escapes its values, since names and notes are untrusted text."""
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("membra.show")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True).get_template(name)
