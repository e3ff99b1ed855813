"""Some photographs, described: the shard that holds their fragments, and the lines that the manifest will have."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from membra.describe.recipe import DOUBTFUL, Described, Description
from membra.errors import Refused, TooFewLetters
from membra.sources.fragment import Fragment
from membra.store import manifest
from membra.store.manifest import FragmentRow
from membra.store.shard import Stored, write_shard
from membra.store.tensors import FileRecord

Outcome = tuple[Fragment, str, Description | Refused]  # with the SHA-256 of the image's bytes


@dataclass(frozen=True)
class Batch:
    """Fragments whose descriptions lie in a shard that nothing names yet, and those that were refused."""

    record: FileRecord | None  # the shard, if any of them was described
    rows: list[FragmentRow]  # described ones in the shard's order; all pieces of a photograph, or none
    readable: int = 0  # photographs that could be opened, whatever was on them
    blank: int = 0  # pieces of them that have no writing

    @property
    def photographs(self) -> set[str]:
        return {row.photograph for row in self.rows}

    def to_json(self) -> str:
        return json.dumps({"written": self.record and asdict(self.record), "rows": [asdict(row) for row in self.rows]})

    @classmethod
    def from_json(cls, text: str) -> "Batch":
        found = json.loads(text)
        record = FileRecord(**found["written"]) if found["written"] else None
        return cls(record, [FragmentRow(**row) for row in found["rows"]])


@dataclass(frozen=True)
class Added:
    """What `Collection.add` did, in numbers, and what it could not do, with reasons."""

    described: int = 0
    few_letters: int = 0  # of those described
    unchanged: int = 0
    readable: int = 0  # images that could be opened, whatever was on them
    refused: list[tuple[str, str]] = field(default_factory=list)  # id, reason
    doubtful: int = 0  # of those described
    blank: int = 0  # pieces without writing, which are counted and not described
    updated: int = 0  # of those unchanged: the catalogue says something else of them than before

    def plus(self, batch: Batch) -> "Added":
        """The same with one more batch."""
        notes = [row.note.split(", ") for row in batch.rows if not row.refused]
        return Added(
            self.described + len(notes),
            self.few_letters + sum("few letters" in note for note in notes),
            self.unchanged,
            self.readable + batch.readable,
            [*self.refused, *((row.id, row.refused) for row in batch.rows if row.refused)],
            self.doubtful + sum(DOUBTFUL in note for note in notes),
            self.blank + batch.blank,
            self.updated,
        )


def batch_of(folder: Path, described: Sequence[tuple[str, Described]]) -> Batch:
    """As `write_batch`, for whole photographs, given with the SHA-256 of their bytes."""
    outcomes = [(fragment, digest, result) for digest, one in described for fragment, result in one.pieces]
    return replace(write_batch(folder, outcomes), blank=sum(one.blank for _, one in described))


def write_batch(folder: Path, outcomes: Sequence[Outcome]) -> Batch:
    """Write the shard of some fragments into the collection at `folder`, in any process; `Writer.store` names it."""
    good = [(fragment.id, Stored.of(result)) for fragment, _, result in outcomes if not isinstance(result, Refused)]
    record = None
    if good:
        record = write_shard(folder / "shards", [stored for _, stored in good], [id for id, _ in good])
    readable = {
        fragment.photograph
        for fragment, _, result in outcomes
        if not isinstance(result, Refused) or isinstance(result, TooFewLetters)
    }
    return Batch(record, [manifest.row_of(*outcome) for outcome in outcomes], len(readable))
