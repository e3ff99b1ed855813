"""Run the peers of `compare/peers.py` on a collection; they read its photographs again, as no ink is stored."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from membra.compare.encodings import EncodingSettings, Vectors
from membra.compare.peers import Peer, encode
from membra.compare.threads import processors
from membra.describe.keypoints import keypoints_by_piece
from membra.describe.workers import Workers
from membra.errors import Conflict
from membra.progress import Progress
from membra.see.sift import SiftSettings, within_budget
from membra.store.collection import Collection, Entry
from membra.store.corrections import with_fixes
from membra.store.redescribe import check_there, photographs

MAX_PROCESSES = 4  # that extract keypoints in parallel: SIFT of a full page takes 2 to 3 GB


@dataclass
class KeypointGallery:
    """Fragments of a collection: their keypoints, extracted for the first peer, and their encodings."""

    collection: Collection
    described: Sequence[Entry]
    settings: EncodingSettings = field(default_factory=EncodingSettings)
    _descriptors: list[Vectors] = field(default_factory=list)
    _vectors: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def distances(self, peer: Peer, barred: NDArray[np.bool_], progress: Progress) -> NDArray[np.float64]:
        """Compute the distances (n, n) of the fragments by a peer, which may not use `barred` (n, n) candidates.

        `progress` counts the photographs read. Raises `MembraError` if a photograph is missing or is split into other
        pieces than when it was described.
        """
        self._descriptors = self._descriptors or self._found(progress)
        if peer.encoding not in self._vectors:
            self._vectors[peer.encoding] = encode(peer.encoding, self._descriptors, self.settings)
        return peer.matrix(self._vectors[peer.encoding], barred, self.settings)

    def _found(self, progress: Progress) -> list[Vectors]:
        images = with_fixes(self.collection.path, photographs(self.described))
        check_there(images)
        settings = within_budget(SiftSettings(), len(self.described))
        wanted = {entry.fragment.id for entry in self.described}
        found: dict[str, Vectors] = {}
        with Workers(min(processors(), MAX_PROCESSES, 1 + len(images) // 8)) as pool:
            look = partial(keypoints_by_piece, recipe=self.collection.recipe, settings=settings)
            for done, pieces in enumerate(pool.each(look, images), start=1):
                found |= {id: vectors for id, vectors in pieces.items() if id in wanted}
                progress(done, len(images))
        if missing := wanted - found.keys():
            raise Conflict(
                "the photograph no longer shows the piece {id}; describe the collection again, or leave the peers out",
                id=min(missing),
            )
        return [found[entry.fragment.id] for entry in self.described]
