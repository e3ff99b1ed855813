"""A batch of described photographs: the shard with their fragments, and their rows for the manifest."""

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
    """Described fragments, in a shard that the manifest does not name yet, and rejected fragments."""

    record: FileRecord | None  # the shard; None if no fragment was described
    rows: list[FragmentRow]  # described fragments in the shard's order; all pieces of a photograph, or none
    readable: int = 0  # photographs that could be decoded, with or without writing
    blank: int = 0  # pieces of them without writing

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
    """Counts of what `Collection.add` did, and the fragments that it rejected, with reasons."""

    described: int = 0
    few_letters: int = 0  # of those described
    unchanged: int = 0
    readable: int = 0  # images that could be decoded, with or without writing
    refused: list[tuple[str, str]] = field(default_factory=list)  # id, reason
    doubtful: int = 0  # of those described
    blank: int = 0  # pieces without writing, which are counted and not described
    updated: int = 0  # of those unchanged: fragments whose metadata differ from before

    def plus(self, batch: Batch) -> "Added":
        """Return these counts with one more batch added."""
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
    """Like `write_batch`, for whole photographs, each given with the SHA-256 of its bytes."""
    outcomes = [(fragment, digest, result) for digest, one in described for fragment, result in one.pieces]
    return replace(write_batch(folder, outcomes), blank=sum(one.blank for _, one in described))


def write_batch(folder: Path, outcomes: Sequence[Outcome]) -> Batch:
    """Write the shard of some fragments into the collection at `folder`, from any process.

    `Writer.store` adds it to the manifest.
    """
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
