"""Maps the column names of catalogues, in several languages, to those of membra."""

import re
import unicodedata
from collections.abc import Iterable, Mapping

from membra.errors import Invalid

# membra's column names and their synonyms, compared without case, accents, spaces and punctuation.
SYNONYMS: dict[str, str] = {
    "image": (
        "file; filename; file name; image file; photo; photograph file; picture; scan; bild; datei; "
        "dateiname; bilddatei; fichier; nom du fichier; immagine; nome file; imagen; archivo; תמונה; קובץ; שם "
        "קובץ; צילום; файл"
    ),
    "shelfmark": (
        "shelf mark; shelf-mark; call number; callnumber; shelfmarks; signatur; cote; cote du manuscrit; "
        "segnatura; signatura; signatuur; signature; סימן מדף; סימן; סימול; מספר מדף; מספר כתב יד; шифр"
    ),
    "library": (
        "repository; institution; holding institution; bibliothek; bibliotheque; biblioteca; "
        "aufbewahrungsort; bibliotheek; etablissement; ספרייה; ספריה; מוסד; библиотека"
    ),
    "side": "page side; recto verso; recto/verso; seite; lato; cara; face; צד; עמוד; сторона",
    "leaf": "folio; blatt; feuillet; foglio; hoja; דף; עלה; лист",
    "join": "known join; join group; צירוף; צירוף ידוע",
    "title": "work; titel; werk; titre; titolo; titulo; שם החיבור; חיבור; כותר; название",
    "script": (
        "script type; type of script; schrift; schriftart; ecriture; scrittura; escritura; סוג כתב; כתב; סוג "
        "כתיבה; письмо"
    ),
    "language": "sprache; langue; lingua; lengua; idioma; שפה; לשון; язык",
    "scribe": "hand; copyist; schreiber; scribe copiste; copiste; copista; סופר; מעתיק; писец",
    "date": "dating; datierung; datum; datation; fecha; תאריך; תיארוך; датировка; дата",
    "place": "provenance; herkunft; ort; lieu; luogo; lugar; מקום; מוצא; место",
    "material": (
        "support; writing material; beschreibstoff; materiau; matiere; materiale; soporte; חומר; חומר כתיבה; материал"
    ),
    "height_mm": "height; hohe; hoehe; hauteur; altezza; altura; alto; גובה; высота",
    "width_mm": "width; breite; largeur; larghezza; anchura; ancho; רוחב; ширина",
    "rights": "licence; license; rechte; droits; diritti; derechos; זכויות",
}
_UNITS = (
    "inmm",
    "millimetres",
    "incm",
    "centimetres",
    "mm",
    "cm",
    "במילימטרים",
    "בממ",
    "ממ",
    "בסמ",
    "סמ",
)  # at the end of a name
_BY_NAME: dict[str, str] = {}


def guess_columns(
    headers: Iterable[str], kept: Mapping[str, str] | None = None, only: Iterable[str] = SYNONYMS
) -> dict[str, str]:
    """Map the columns of a table to membra's names, for those that have another name.

    A column with one of membra's own names keeps it. `kept` is an earlier mapping, and takes precedence. Each name is
    assigned once, to the first column that matches.

    >>> guess_columns(["Signatur", "Bilddatei", "Höhe (mm)", "Notiz"])
    {'Signatur': 'shelfmark', 'Bilddatei': 'image', 'Höhe (mm)': 'height_mm'}
    >>> guess_columns(["סימן מדף", "shelfmark", "file"], only=("image", "shelfmark"))
    {'file': 'image'}
    >>> guess_columns(["Cote", "Signatur"], {"Signatur": "shelfmark"})
    {'Signatur': 'shelfmark'}
    """
    headers = list(headers)
    found = {their: our for their, our in (kept or {}).items() if their in headers}
    taken = {*found.values(), *(header for header in headers if header in SYNONYMS and header not in found)}
    names = _names()
    for header in headers:
        our = names.get(_without_unit(_plain(header)))
        if our and our in only and our not in taken and header not in found and header not in SYNONYMS:
            found[header] = our
            taken.add(our)
    # In the order of the table.
    return {header: found[header] for header in headers if header in found}


def check_mapping(mapping: Mapping[str, str], headers: Iterable[str]) -> None:
    """Raise `Invalid` unless every mapped column is in the table, and no two are mapped to the same name."""
    headers = list(headers)
    for their in mapping:
        if their not in headers:
            raise Invalid(
                "the table has no column {column}; it has: {columns}", column=repr(their[:60]), columns=headers[:40]
            )
    ours = list(mapping.values())
    twice = next((name for name in ours if ours.count(name) > 1), None)
    if twice:
        raise Invalid(
            "two columns of the table are mapped to {column}; change the mapping of one of them", column=twice
        )


def in_millimetres(header: str, our: str, cell: str) -> str:
    """Convert a size to millimetres, where the header gives centimetres and the cell does not say millimetres.

    >>> in_millimetres("Höhe (cm)", "height_mm", "12,5"), in_millimetres("Höhe", "height_mm", "120")
    ('125', '120')
    >>> in_millimetres("Height (cm)", "height_mm", "ca. 12.5 cm"), in_millimetres("Height (cm)", "height_mm", "9 mm")
    ('ca. 125 mm', '9 mm')
    """
    in_cm = our in ("height_mm", "width_mm") and _plain(header).endswith(("cm", "סמ", "centimetres"))
    if not in_cm or re.search(r"mm|millim", cell, re.IGNORECASE):
        return cell
    larger = re.sub(r"\d+(?:[.,]\d+)?", lambda number: f"{float(number[0].replace(',', '.')) * 10:g}", cell)
    return re.sub(r"\bcm\b|\bcentimet(?:re|er)s?\b", "mm", larger, flags=re.IGNORECASE)


def _names() -> dict[str, str]:
    if not _BY_NAME:
        _BY_NAME.update({_plain(name): our for our, names in SYNONYMS.items() for name in (our, *names.split(";"))})
    return _BY_NAME


def _without_unit(plain: str) -> str:
    """Remove the unit at the end of a normalised name."""
    unit = next((unit for unit in _UNITS if plain.endswith(unit) and plain != unit), "")
    return plain.removesuffix(unit)


def _plain(name: str) -> str:
    """Normalise a header: without case, accents, points, spaces and quotes.

    >>> _plain("Höhe  (mm)"), _plain('גובה במ"מ')
    ('hohemm', 'גובהבממ')
    """
    apart = unicodedata.normalize("NFKD", name).casefold()
    return re.sub(r"[\W_]+", "", "".join(c for c in apart if not unicodedata.combining(c)))
