"""Update the message catalogues of the pages: extract every message from the source, merge, compile.

    python tools/translations.py [LANGUAGE]

Run it after a message was added or changed, translate the messages that it prints, and run it again. Translators edit
the catalogues `src/membra/show/web/locale/*/LC_MESSAGES/membra.po`; membra reads the compiled `.mo` beside each. For a
LANGUAGE code without a catalogue, an empty one is created first.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_file
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from jinja2.ext import babel_extract

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from membra import errors
from membra.show.web.translations import DOMAIN, LOCALE

SOURCE = Path(errors.__file__).parent
# Calls that contain a message in Python: errors, `Message`, and the marker `gettext_noop`.
KINDS = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.MembraError)]
KEYWORDS: dict[str, tuple[int, ...]] = dict.fromkeys([*KINDS, "Message", "gettext_noop"], (1,))


def main(languages: Sequence[str]) -> None:
    for language in languages:
        path = LOCALE / language / "LC_MESSAGES" / f"{DOMAIN}.po"
        if not path.exists():
            path.parent.mkdir(parents=True)
            with path.open("wb") as file:
                write_po(file, Catalog(locale=language, project="membra", version="pages", fuzzy=False))
    for path in sorted(LOCALE.rglob(f"{DOMAIN}.po")):
        catalogue = read(path)
        catalogue.update(extracted(), no_fuzzy_matching=True, update_creation_date=False)
        catalogue.obsolete.clear()
        with path.open("wb") as file:
            write_po(file, catalogue, width=120, include_lineno=False, ignore_obsolete=True)
        with path.with_suffix(".mo").open("wb") as file:
            write_mo(file, read(path))
        for message in catalogue:
            if message.id and not message.string:
                print(f"{path.relative_to(LOCALE)}: not translated: {message.id}")


def read(path: Path) -> Catalog:
    """Read the catalogue in a `.po` file."""
    with path.open("rb") as file:
        return read_po(file, domain=DOMAIN)


def extracted() -> Catalog:
    """Return every message that a page can show, with the files that contain it."""
    found = Catalog(domain=DOMAIN)
    for name, sentence in sentences():
        if re.search(r"[^\W\d_]", re.sub(r"\{\w+\}", "", sentence)):  # `{file}: {why}` has nothing to translate
            found.add(sentence, locations=[(name, 0)])
    return found


def sentences() -> Iterator[tuple[str, str]]:
    """Yield file and message, in the order of the files."""
    for path in sorted(SOURCE.rglob("*.py")):
        for _, found, _, _ in extract_from_file("python", path, keywords=KEYWORDS):
            yield from _named(path, found)
    for path in sorted((SOURCE / "show" / "web" / "templates").glob("*.html")):
        with path.open("rb") as file:
            for _, _, message, _ in babel_extract(file, ["t"], [], {"silent": "false"}):
                yield from _named(path, message)


def _named(path: Path, found: str | tuple[str | None, ...] | None) -> Iterator[tuple[str, str]]:
    first: str | None = found[0] if isinstance(found, tuple) else found
    if first:  # None where the argument is not a literal
        yield path.relative_to(SOURCE).as_posix(), first


if __name__ == "__main__":
    main(sys.argv[1:])
