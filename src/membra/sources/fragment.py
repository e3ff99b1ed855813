"""The record of one photographed fragment, and the reading of records from folders, tables and IIIF manifests."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from membra.errors import Conflict, Invalid, NotFound
from membra.messages import Message
from membra.sources.columns import guess_columns
from membra.sources.fix import Fix
from membra.sources.tables import SUFFIXES, headers_of, iterate_table

if TYPE_CHECKING:
    from membra.sources.download import Download

# Suffixes of the images in a folder. Decoding checks later whether the content is an image.
IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp", ".jp2", ".heic", ".heif"})
# Pictures that membra does not read: each becomes a fragment with that reason.
UNREAD_SUFFIXES = frozenset(
    {".arw", ".avif", ".cr2", ".cr3", ".djvu", ".dng", ".eps", ".gif", ".nef", ".orf", ".psd", ".raf", ".rw2", ".svg"}
)

PHOTOGRAPH = "photograph"  # the column that the pieces of one photograph share
_LOOKED_AT = IMAGE_SUFFIXES | UNREAD_SUFFIXES | {".pdf"}
_PIECE = re.compile(r"(.+)#([1-9][0-9]{0,5})", re.DOTALL)


@dataclass(frozen=True)
class Fragment:
    """One photographed piece of a manuscript.

    Attributes
    ----------
    id : str
        The image's path relative to its source, with `/` between folders; for one of several pieces, with `#` and its
        number.
    path : Path
        The image.
    columns : mapping of str to str
        Its other cells in a table (`join`, `leaf`, `shelfmark`, `side`, ...), or its metadata from a manifest.
    refused : str
        Why there is no image to read; empty where there is one.
    piece : int
        Its number among several pieces in one photograph, from 1 in reading order; 0: the photograph shows one piece.
    fixes : tuple of Fix
        Corrections of what is seen on the photograph, as stored in a collection.
    """

    id: str
    path: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""
    piece: int = 0
    fixes: tuple[Fix, ...] = ()

    @property
    def photograph(self) -> str:
        """The id of its photograph: its own id, unless it is one of several pieces."""
        return split_piece(self.id)[0] if self.piece else self.id


def piece_of(photograph: Fragment, number: int) -> Fragment:
    """Return one of several pieces of a photograph, by its number from 1, as a fragment."""
    columns = {**photograph.columns, PHOTOGRAPH: photograph.columns.get(PHOTOGRAPH) or photograph.id}
    return replace(photograph, id=f"{photograph.id}#{number}", columns=columns, piece=number)


def split_piece(name: str) -> tuple[str, int]:
    """Split a piece's name into the photograph's name and the piece's number; 0 where it is not a piece's name.

    >>> split_piece("plate-7.jpg#2"), split_piece("plate-7.jpg")
    (('plate-7.jpg', 2), ('plate-7.jpg', 0))
    """
    found = _PIECE.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, 0)


def fragments(
    source: str | Path,
    download: "Download | None" = None,
    *,
    mapping: Mapping[str, str] | None = None,
    pages: Path | None = None,
) -> list[Fragment]:
    """Read the fragments of a folder (every image below it), a table with a column `image`, or a IIIF manifest.

    Parameters
    ----------
    source : path or URL
    download : Download, optional
        Where the images of a IIIF manifest or collection (its URL or a .json file) are stored; required for such a
        source.
    mapping : mapping of str to str, optional
        From the columns of a table (CSV, XLSX, ODS) to membra's names, `{"Signatur": "shelfmark"}`. Default: guessed.
    pages : path, optional
        Folder into which the pages of PDFs are rendered; without it, a PDF is rejected with that reason.

    Returns
    -------
    list of Fragment
        Sorted by id for a folder, in the file's order for a table and a manifest.

    Raises
    ------
    MembraError
        Where there are no fragments, or the source cannot be read.
    """
    if is_iiif(source):
        from membra.sources.download import iiif_fragments

        if download is None:
            raise Invalid(
                "{source} is a IIIF source, and its images need a folder; run `membra index {source} --into "
                "NEW` first and give the folder NEW.images here",
                source=source,
            )
        return iiif_fragments(str(source), download)
    source = Path(source)
    if source.is_dir():
        return _of_folder(source, pages)
    if source.is_file() and source.suffix.lower() in SUFFIXES:
        return _of_table(source, mapping)
    if source.is_file():
        raise Invalid(
            "{source} is neither a folder nor a table (.csv, .xlsx, .ods) nor a manifest (.json); give the folder "
            "that contains the images",
            source=source,
        )
    raise NotFound(
        "{source} does not exist; give a folder of images or a CSV file with a column `image`", source=source
    )


def is_iiif(source: str | Path) -> bool:
    """Return whether a source is a URL, or a .json file, which can only be a manifest."""
    return is_url(source) or (Path(source).suffix.lower() == ".json" and Path(source).is_file())


def is_table(source: str | Path) -> bool:
    """Return whether a source is a table, by its suffix."""
    return not is_url(source) and Path(source).suffix.lower() in SUFFIXES and Path(source).is_file()


def is_url(source: str | Path) -> bool:
    """Return whether a source has the form of a URL rather than of a path."""
    return isinstance(source, str) and ("://" in source or source.startswith("file:"))


def fragments_of(
    sources: Iterable[str | Path],
    download: "Download | None" = None,
    *,
    mapping: Callable[[Path], Mapping[str, str]] | None = None,
    pages: Path | None = None,
) -> list[Fragment]:
    """Read the fragments of several sources. Raises `Conflict` where two files have the same id.

    `mapping` returns the column mapping of each table.
    """
    found: dict[str, Fragment] = {}
    for source in sources:
        own = mapping(Path(source)) if mapping and is_table(source) else None
        for fragment in fragments(source, download, mapping=own, pages=pages):
            if fragment.id in found and found[fragment.id].path != fragment.path:
                raise Conflict(
                    "{file} and {other} would both get the id {id}; give the folder that contains both sources instead",
                    file=fragment.path,
                    other=found[fragment.id].path,
                    id=fragment.id,
                )
            found[fragment.id] = fragment
    return list(found.values())


def _of_folder(folder: Path, pages: Path | None) -> list[Fragment]:
    from membra.sources.pdf import pdf_fragments

    below = sorted(_files_below(folder), key=lambda path: path.relative_to(folder).as_posix())
    found: list[Fragment] = []
    for path in below:
        suffix, own = path.suffix.lower(), _of_path(path.relative_to(folder).as_posix(), path)
        if suffix == ".pdf" and not own.refused:
            found += pdf_fragments(own.id, path, pages)
        elif suffix in UNREAD_SUFFIXES:
            reason = Message("{file}: this format is not supported; save the image as JPEG, PNG or TIFF", file=own.id)
            found.append(replace(own, refused=own.refused or reason))
        else:
            found.append(own)
    if not any(path.suffix.lower() in IMAGE_SUFFIXES for path in below) and all(one.refused for one in found):
        raise NotFound(
            "{folder} contains no images ({suffixes}); check the path, or give a CSV file with a column `image`",
            folder=folder,
            suffixes=sorted(IMAGE_SUFFIXES),
        )
    return found


def _of_path(id: str, path: Path) -> Fragment:
    """Make a fragment of a file. One whose absolute path is not UTF-8 is rejected: it cannot be stored as text."""
    whole = path.absolute()
    if readable_name(str(whole)) == str(whole):
        return Fragment(id, path)
    plain = readable_name(id)
    wrong = next(part for part in reversed(whole.parts) if readable_name(part) != part)
    if wrong == path.name:
        reason = Message("{file}: its name is not UTF-8; rename the file", file=plain)
    else:
        reason = Message(
            "{file}: the name of its folder {folder} is not UTF-8; rename the folder",
            file=plain,
            folder=readable_name(wrong),
        )
    return Fragment(plain, Path(readable_name(str(whole))), refused=reason)


def readable_name(name: str) -> str:
    """Return a file name with a question mark for each byte that is not UTF-8."""
    return name.encode("utf-8", "replace").decode()


def _files_below(folder: Path) -> Iterator[Path]:
    # Symbolic links to folders are not followed, since they can form a cycle.
    for parent, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            if Path(name).suffix.lower() in _LOOKED_AT and not name.startswith("."):
                yield Path(parent, name)


def _beside(table: Path, id: str) -> list[Path]:
    return [file for file in (table.parent / id, table.parent / "images" / id) if _is_file(file)]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a cell that is too long for a name, or a folder without permission
        return False


def _of_table(path: Path, mapping: Mapping[str, str] | None) -> list[Fragment]:
    """Read the images that a table names. A missing one is kept with the reason; if all are missing, `NotFound`."""
    if mapping is None:
        mapping = guess_columns(headers_of(path))
    found: list[Fragment] = []
    missing: list[str] = []
    seen: set[str] = set()
    for number, row in enumerate(iterate_table(path, ("image",), mapping), start=1):
        image = row.pop("image")
        if not image:
            id = row.get("shelfmark") or f"{path.name} {number}"
            reason = Message("line {number} of {file} names no image", number=number, file=readable_name(path.name))
            found.append(replace(_of_path(id, path), columns=row, refused=reason))
            continue
        id = Path(image).as_posix()
        files = _beside(path, id)
        if not files and "\\" in image:  # a Windows path, unless a file has this very name
            id = PurePosixPath(image.replace("\\", "/")).as_posix()
            files = _beside(path, id)
        if id in seen:  # also in another spelling: `./a.jpg` and `a.jpg`
            raise Invalid(
                "{file} names {image} twice; keep one line for each image", file=path, image=repr(image[:300])
            )
        seen.add(id)
        own = replace(_of_path(id, files[0] if files else path.parent / id), columns=row)
        if not files:
            missing.append(image)
            reason = Message(
                "{file}: the table names this image, but the file is neither beside the table nor in images/", file=id
            )
            own = replace(own, refused=reason)
        found.append(own)
    if missing and len(missing) == len(seen):
        first = repr(missing[0][:300])
        if len(missing) > 1:
            first = Message("{first} and {count} more", first=first, count=len(missing) - 1)
        raise NotFound(
            "{file} names {image}, but there is no such file beside it or in images/; correct the path or remove the "
            "line",
            file=path,
            image=first,
        )
    if not seen:
        raise Invalid("{file} names no image; it needs one line for each fragment below the header", file=path)
    return found
