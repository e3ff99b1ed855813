"""The join of each fragment, from a CSV file, the source's own column, or the folders of its images."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from membra.errors import MembraError, NotEnough
from membra.judge.evaluate import ask
from membra.judge.joins import read_joins
from membra.reproduce.experiments import Known
from membra.reproduce.material import Material
from membra.sources.fragment import Fragment
from membra.sources.tables import read_table

Labels = dict[str, dict[str, str]]  # the fragment's id -> its row: `join` and further columns


def labels_of(source: str | Path, joins: str | Path | None, found: Sequence[Fragment]) -> tuple[Labels, str]:
    """Return the labels of the fragments of `source`; if the CSV `joins` matches no image, none and the reason.

    Without a CSV, the source's column `join` is used, or else the first folder below the source on the path of an
    image: one folder per join, as in the paper's own set. Raises `MembraError` if there is neither, or if the CSV
    cannot be read.
    """
    if joins is not None:
        read_table(Path(joins), needed=("image", "join"))
        try:
            return read_joins(joins, [fragment.id for fragment in found]), ""
        except MembraError as reason:
            return {}, str(reason)
    if any(fragment.columns.get("join") for fragment in found):
        return {f.id: dict(f.columns) for f in found if f.columns.get("join")}, ""
    folders = {fragment.id: fragment.id.partition("/")[0] for fragment in found if "/" in fragment.id}
    if not folders:
        raise NotEnough(
            "the known joins of {source} are missing; give a CSV with the columns image,join as --joins, or put the "
            "images of each join into a separate folder",
            source=source,
        )
    return {id: {"join": folder} for id, folder in folders.items()}, ""


def known_of(
    material: Material, labels: Mapping[str, dict[str, str]], unmatched: str, exclude_same: str | None
) -> Known:
    """Apply the labels to the described fragments; `unmatched`: why there are none."""
    ids = [material.fragments[index].id for index in material.described]
    indices = [index for index, id in enumerate(ids) if id in labels]
    question = ask([ids[index] for index in indices], [], dict(labels), exclude_same)
    why_not = unmatched
    if not why_not and not question.queries():
        why_not = f"of {len(ids)} described fragments, no two that may match share a join: there is no mate to be found"
    return Known(indices, question, why_not, exclude_same, labels)
