"""The pairs of the inbox that each person skipped or postponed, kept while the server runs."""

import threading
from dataclasses import dataclass, field

from membra.store.verdicts import person_key

SKIP, LATER = "skip", "later"  # answers that are no verdicts
Pair = tuple[str, str]


@dataclass
class Sitting:
    """The pairs that one person skipped or postponed."""

    skipped: dict[Pair, None] = field(default_factory=dict)
    later: dict[Pair, None] = field(default_factory=dict)

    def put(self, pair: Pair, says: str) -> None:
        """Skip or postpone a pair; after any other answer it is neither."""
        self.skipped.pop(pair, None)
        self.later.pop(pair, None)
        if says in (SKIP, LATER):
            (self.skipped if says == SKIP else self.later)[pair] = None


class Sittings:
    """The sittings of all people; one is for those who have not typed a name yet."""

    def __init__(self) -> None:
        self._by: dict[str, Sitting] = {}
        self._lock = threading.Lock()

    def of(self, by: str) -> Sitting:
        with self._lock:
            return self._by.setdefault(person_key(by), Sitting())

    def sign(self, by: str) -> None:
        """Give the pairs that were skipped and postponed without a name to `by`, who has now typed one."""
        own = self.of(by)
        with self._lock:
            nameless = self._by.pop("", Sitting())
        for says, among in ((SKIP, nameless.skipped), (LATER, nameless.later)):
            for pair in among:
                own.put(pair, says)
