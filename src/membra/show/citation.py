"""A group of fragments as a bibliography entry: BibTeX, and CSL-JSON for Zotero and pandoc."""

import hashlib
import json
import re
import unicodedata
from typing import Any

from membra import __version__
from membra.show.group import Group, title_of
from membra.show.holding import Holding

LIBRARY = ("library", "institution", "repository", "collection")  # columns that may name the holding institution
_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX |= {character: f"\\{character}" for character in "&%$#_{}"}


def bibtex(holding: Holding, group: Group) -> bytes:
    """Return one `@misc` entry, in UTF-8."""
    own = _record(holding, group)
    fields = {
        "title": f"{{{_tex(own['title'])}}}",  # inner braces keep capitals
        "howpublished": _tex(f"Manuscript fragments: {own['archive_location']}"),
        "organization": _tex(own.get("archive", "")),
        "year": str(own["issued"]["date-parts"][0][0]) if "issued" in own else "",
        "note": _tex(own["note"]),
        "keywords": _tex(", ".join(own["custom"]["fragments"])),
    }
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
    return (f"@misc{{{own['id']},\n" + ",\n".join(lines) + "\n}\n").encode("utf-8", "replace")


def csl_json(holding: Holding, group: Group) -> bytes:
    """Return a list of one item of type `manuscript`."""
    return (json.dumps([_record(holding, group)], ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")


def _record(holding: Holding, group: Group) -> dict[str, Any]:
    """Return the group with the keys of CSL-JSON; membra's additions are under `custom`."""
    entries = [holding.entry(id) for id in group.ids]
    marks = dict.fromkeys(_plain(e.fragment.columns.get("shelfmark") or e.fragment.id) for e in entries)
    libraries = dict.fromkeys(
        _plain(next(filter(None, (entry.fragment.columns.get(name, "") for name in LIBRARY)), "")) for entry in entries
    )
    title = _plain(title_of(holding, group))
    joins = [verdict for verdict in group.verdicts if verdict.says == "join"]
    people = dict.fromkeys(_plain(verdict.by) for verdict in joins)
    said = f"joined by {', '.join(people)}" if group.confirmed and people else "not confirmed by verdicts"
    digest = hashlib.sha256("\0".join(sorted(group.ids)).encode("utf-8", "replace")).hexdigest()[:8]
    record: dict[str, Any] = {
        "id": "-".join(filter(None, ("membra", _slug(next(iter(marks))), digest))),
        "type": "manuscript",
        "title": title,
        "archive_location": " + ".join(marks),
        "note": f"{len(group.ids)} fragments, {said}; membra {__version__}, collection {holding.collection.path.name}",
        "custom": {"fragments": [_plain(id) for id in group.ids]},
    }
    if kept := "; ".join(filter(None, libraries)):
        record["archive"] = kept
    if joins:
        at = max(verdict.at for verdict in joins)
        record["issued"] = {"date-parts": [[int(part) for part in at[:10].split("-")]]}
    return record


def _plain(text: str) -> str:
    return " ".join(text.encode("utf-8", "replace").decode().split())


def _slug(text: str) -> str:
    """Return a text as letters, digits and hyphens, which every BibTeX accepts in a key."""
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", ascii_only).strip("-")[:40]


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)
