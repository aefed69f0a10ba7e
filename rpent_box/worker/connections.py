# SPDX-License-Identifier: Apache-2.0
"""Who speaks to this worker, and what it keeps for each. Used by the receiving thread only.

Memory belongs to a connection, never to a word of a client's own: the identity comes from the
socket and the session's id from the worker, so no client can name another's.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from rpent_box.errors import ProtocolMismatch

SILENT_S = 24 * 3600.0
"""Not every connection can be seen to die; after so long in silence it is forgotten."""


@dataclass(slots=True, kw_only=True, eq=False)
class Connection:
    """One client that has said hello."""

    identity: bytes
    client: str
    """For logs and errors only."""
    seen: float
    """When it last said something, `time.monotonic()`."""
    session: str | None = None
    """Its memory inside the backend; None: it has none."""

    def open_session(self) -> str:
        """Return the session's id, made now if there was none."""
        if self.session is None:
            self.session = secrets.token_hex(16)
        return self.session


class Connections:
    """All of them, by the identity that the socket gives."""

    def __init__(self) -> None:
        self._all: dict[bytes, Connection] = {}

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._all.values()))

    @property
    def sessions(self) -> int:
        """How many hold memory inside the backend."""
        return sum(1 for connection in self._all.values() if connection.session is not None)

    def add(self, connection: Connection) -> None:
        self._all[connection.identity] = connection

    def find(self, identity: bytes) -> Connection | None:
        return self._all.get(identity)

    def known(self, identity: bytes, now: float) -> Connection:
        """Return who asks, and note that it did.

        Raises `ProtocolMismatch` for one that has not said hello.
        """
        connection = self._all.get(identity)
        if connection is None:
            raise ProtocolMismatch(
                "this worker does not know this connection: a hello comes first",
                hint="A worker that was started again has forgotten its clients: connect anew.",
            )
        connection.seen = now
        return connection

    def remove(self, connection: Connection) -> None:
        """Forget `connection`."""
        self._all.pop(connection.identity, None)
