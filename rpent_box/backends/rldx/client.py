# SPDX-License-Identifier: Apache-2.0
"""Speaks to an RLDX server: one question at a time, each with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from rpent_box.backends.rldx import requests
from rpent_box.backends.rldx.codec import Message, decode
from rpent_box.backends.rldx.line import Line
from rpent_box.errors import DeadlineExceeded, PeerGone, PredictionFailed, ProtocolMismatch

_CONNECT_S = 5.0
_WATCH_S = 0.2
"""How often `watch` is called while an answer is waited for."""
_OBITUARY_S = 1.0
"""How long after a broken connection `watch` may take to see that the server has ended."""
_SHOWN = 200
"""Characters of a strange answer that an error shows."""
_LONGEST_WORDS = 2000
"""Characters of a server's own error that travel on."""


def nobody_watches() -> None:
    """For a server that somebody else looks after."""


class RldxClient:
    """One connection to one server. Belongs to one thread; close() may be called twice.

    A question that was given up does not block the next: the socket correlates requests and
    answers (ZMQ_REQ_CORRELATE, which any REP socket honours) and drops late ones, and the server
    sees our questions in the order in which they were asked. After anything worse the next question
    opens a new connection.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        token: str = "",
        timeout_s: float,
        watch: Callable[[], None] = nobody_watches,
    ) -> None:
        """`watch` raises when the server is known to have ended."""
        self.endpoint = endpoint
        self.timeout_s = timeout_s
        self._token = token
        self._watch = watch
        self._line: Line | None = None
        self._connections = 0

    def connect(self) -> int:
        """Be connected; return which connection this is, counted from 1.

        Another number than before means that the server may be another one too, which remembers
        nothing. Raises `PeerGone` when nobody is there, `ProtocolMismatch` when something else is.
        """
        if self._line is not None and not self._line.is_whole():
            self._hang_up()
        if self._line is None:
            self._watch()
            self._line = Line(self.endpoint, timeout_s=min(self.timeout_s, _CONNECT_S))
            self._connections += 1
        return self._connections

    def ping(self, *, timeout_s: float) -> None:
        """Ask whether it answers; raises like `get_action`."""
        self._ask(requests.ping(self._token), "a ping", timeout_s)

    def modality_config(self) -> object:
        """Return what the model sees and answers, for `read_modality`. Raises as `get_action`."""
        return self._ask(requests.modality_config(self._token), "its modalities", self.timeout_s)

    def get_action(
        self,
        observation: Message,
        options: Mapping[str, object],
        *,
        connection: int,
        timeout_s: float | None = None,
    ) -> object:
        """Return the actions of one prediction, for `joined`, asked over this very connection.

        Raises `PredictionFailed` with the server's own words, `DeadlineExceeded`, `PeerGone`,
        `ProtocolMismatch`, or what `watch` raises.
        """
        if self.connect() != connection:
            raise PeerGone(f"the RLDX server at {self.endpoint} has hung up meanwhile")
        request = requests.get_action(observation, options, self._token)
        answer = self._ask(request, "a prediction", timeout_s or self.timeout_s)
        if not isinstance(answer, list) or len(answer) != 2:
            raise self._strange("a prediction", answer, "[actions, info]")
        return answer[0]

    def reset(self, session: str, *, timeout_s: float | None = None) -> None:
        """Let the server forget `session`, and nobody else. Raises as `get_action`."""
        request = requests.reset_session(session, self._token)
        answer = self._ask(request, "a reset", timeout_s or self.timeout_s)
        cleared = answer.get("cleared_sessions") if isinstance(answer, dict) else None
        if not isinstance(cleared, list) or any(name != session for name in cleared):
            raise self._strange("a reset", answer, "this session's name or none as cleared")

    def close(self) -> None:
        """Hang up at once."""
        self._hang_up()

    def __enter__(self) -> RldxClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: bytes, what: str, timeout_s: float) -> object:
        deadline = time.monotonic() + timeout_s
        self.connect()
        try:
            answer = decode(self._exchange(request, what, deadline, timeout_s))
        except ProtocolMismatch:
            self._hang_up()
            raise
        except PeerGone:
            self._hang_up()
            self._await_obituary()
            raise
        if isinstance(answer, dict) and "error" in answer:
            words = str(answer["error"])[:_LONGEST_WORDS]
            raise PredictionFailed(
                f"the RLDX server at {self.endpoint} refused {what}: {words}",
                hint="Its own log has the traceback."
                if "Unauthorized" not in words
                else "Give its token: --token-file FILE",
            )
        return answer

    def _exchange(self, request: bytes, what: str, deadline: float, timeout_s: float) -> bytes:
        if self._line is None:
            raise RuntimeError("asking without a connection")
        self._line.send(request)
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise DeadlineExceeded(
                    f"the RLDX server at {self.endpoint} has not answered {what} within "
                    f"{timeout_s:g} s",
                    hint="Allow it more: --timeout-s, and ask it from fewer simulators.",
                )
            answer = self._line.receive(min(left_s, _WATCH_S))
            if answer is not None:
                return answer
            self._watch()

    def _await_obituary(self) -> None:
        """Let `watch` say how the server ended, which it may see a moment after its socket has."""
        if self._watch is nobody_watches:
            return
        deadline = time.monotonic() + _OBITUARY_S
        while time.monotonic() < deadline:
            self._watch()
            time.sleep(0.02)

    def _strange(self, what: str, answer: object, wanted: str) -> ProtocolMismatch:
        shown = repr(answer)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
        return ProtocolMismatch(
            f"the RLDX server at {self.endpoint} answered {what} with {shown}; wanted {wanted}"
        )

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
