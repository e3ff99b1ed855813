"""Exports from the pages: tables, the dossier of a pair, a IIIF manifest."""

import json
from collections.abc import Sequence
from typing import Literal
from urllib.parse import quote, urlencode

from membra.show.dossier import dossier_page
from membra.show.evidence import Evidence, explain_in
from membra.show.export import FORMATS, make_table
from membra.show.iiif_export import manifest as manifest_of
from membra.show.web.desk import Desk, Item
from membra.store.collection import Entry
from membra.store.verdicts import Verdict, in_order

What = Literal["verdicts", "history", "joins", "fragments", "corrections", "notes"]
Ending = Literal["csv", "xlsx", "json"]  # pages have a link for each


def table(desk: Desk, what: What, ending: Ending) -> bytes:
    """Return one of the tables of `membra export`."""
    return FORMATS[f".{ending}"](make_table(desk.holding().collection, what))


def dossier(desk: Desk, first: Item, second: Item) -> bytes:
    """Return the dossier of one pair as a self-contained HTML file."""
    holding = desk.holding()
    evidence = explain_in(holding, first.id, second.id)
    return dossier_page(evidence, holding, desk.verdicts.history(first.id, second.id))


def manifest(desk: Desk, first: Item, second: Item, base: str) -> bytes:
    """Return a IIIF manifest of one pair; pictures that no library serves are served by this server at `base`."""
    evidence = explain_in(desk.holding(), first.id, second.id)
    pair = desk.verdicts.pairs().get(in_order(first.id, second.id))
    verdicts = pair.each if pair else ()
    url = f"{base}export/manifest?{urlencode({'a': first.id, 'b': second.id}, quote_via=quote)}"
    return manifest_bytes(desk, [evidence], verdicts, url, base)


def manifest_bytes(
    desk: Desk, evidence: Sequence[Evidence], verdicts: Sequence[Verdict], url: str, base: str, ids: Sequence[str] = ()
) -> bytes:
    """Return the IIIF manifest of these pairs, or of all fragments `ids` with their pairs; its id is `url`."""

    def picture(entry: Entry) -> str:
        return f"{base}image/whole?{urlencode({'id': entry.fragment.id, 'upright': 'no'}, quote_via=quote)}"

    def small(entry: Entry) -> str:
        return f"{base}image/small?{urlencode({'id': entry.fragment.id}, quote_via=quote)}"

    document = manifest_of(desk.holding().by_id, evidence, verdicts, url=url, picture=picture, small=small, ids=ids)
    return json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "replace")
