"""Detection of changes to a collection, on every request and therefore cheap."""

import sqlite3
import threading
from pathlib import Path

from membra.store.manifest import FILE


class Watch:
    """Watches one manifest. SQLite itself reports whether a transaction was committed to it.

    Times and sizes of its files are not sufficient, since SQLite's checkpoints also change them.
    """

    def __init__(self, path: Path) -> None:
        self._file = path / FILE
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode = self._opened = 0

    def now(self) -> tuple[int, int, int]:
        """Return a value that changes when the manifest has changed, was replaced, or cannot be read."""
        with self._lock:
            try:
                inode = self._file.stat().st_ino
                if self._connection is None or inode != self._inode:
                    self._close()
                    self._connection = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
                    self._inode, self._opened = inode, self._opened + 1
                version = self._connection.execute("PRAGMA data_version").fetchone()[0]
                return inode, self._opened, int(version)
            except (OSError, sqlite3.Error):
                self._close()
                return 0, self._opened, 0

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
