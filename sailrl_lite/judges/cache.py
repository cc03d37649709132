"""The replies that were paid for, on disk: a resumed run, or the next one, pays for none of them again."""

import logging
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import diskcache

log = logging.getLogger(__name__)

_PATIENCE = 2.0  # seconds to wait for a locked cache
_REST = 60.0  # seconds without the cache after it failed


class _Texts(diskcache.Disk):
    """Keys and values are text: nothing in the folder is ever unpickled."""

    def get(self, key: Any, raw: Any) -> Any:
        return super().get(key, True)

    def fetch(self, mode: int, filename: Any, value: Any, read: bool) -> Any:
        return None if mode == diskcache.core.MODE_PICKLE else super().fetch(mode, filename, value, read)


class ReplyCache:
    """Texts by key in a folder that several threads and processes may share, or nothing where it is "".

    What `put` has stored survives the end of the process, however it ends. A cache that is broken, locked or
    full is said so once, and left alone for a minute: nothing here raises, and nothing waits for long.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._store: diskcache.Cache | None = None
        self._lock = threading.Lock()
        self._resting_until = 0.0
        self._told = False

    def get(self, key: str) -> str | None:
        """The text of `key`, or None."""
        value = self._try("get", key)
        return value if isinstance(value, str) else None

    def put(self, key: str, text: str, expire: float | None = None) -> None:
        """Store a text, for `expire` seconds where given. It is on disk when this returns."""
        self._try("set", key, text, expire)

    def close(self) -> None:
        """Close what this thread has open. A later use opens it again."""
        if self._store is not None:
            self._store.close()

    def _try(self, what: str, *args: Any) -> Any:
        if not self._folder or time.monotonic() < self._resting_until:
            return None
        try:
            return getattr(self._opened(), what)(*args)
        except (OSError, sqlite3.Error, diskcache.Timeout, ValueError, RuntimeError) as error:
            self._resting_until = time.monotonic() + _REST
            if not self._told:
                self._told = True
                why = str(error) or type(error).__name__
                log.warning("the judge's cache %s cannot be used (%s); going on without", self._folder, why)
            return None

    def _opened(self) -> diskcache.Cache:
        with self._lock:
            if self._store is None:
                folder = Path(self._folder or "").expanduser()
                _check_unlocked(folder / diskcache.core.DBNAME)
                self._store = diskcache.Cache(
                    folder,
                    timeout=_PATIENCE,
                    disk=_Texts,
                    eviction_policy="none",  # a paid reply is never thrown away
                    cull_limit=0,
                    disk_min_file_size=2**22,  # in the one file: a reply is written whole or not at all
                )
            return self._store


def _check_unlocked(file: Path) -> None:
    """Raise sqlite3.OperationalError if the file stays locked; diskcache would wait for a minute or more."""
    if file.exists():
        connection = sqlite3.connect(file, timeout=_PATIENCE, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        finally:
            connection.close()
