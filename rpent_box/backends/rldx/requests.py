# SPDX-License-Identifier: Apache-2.0
"""Everything that an RLDX server is ever asked, as bytes.

There is no function here for `kill`, which ends a server that may be somebody else's, and none that
resets without saying which session: such a reset clears every session of every client.
"""

from __future__ import annotations

from collections.abc import Mapping

from rpent_box.backends.rldx.codec import Message, encode


def ping(token: str = "") -> bytes:
    """Is anybody there? Answered between two predictions."""
    return _request("ping", None, token)


def modality_config(token: str = "") -> bytes:
    """What does the model want to see, and what does it answer?"""
    return _request("get_modality_config", None, token)


def get_action(observation: Message, options: Mapping[str, object], token: str = "") -> bytes:
    """Predict one chunk. `options` names its session: {"session_ids": [one], …}."""
    return _request("get_action", {"observation": observation, "options": options}, token)


def reset_session(session: str, token: str = "") -> bytes:
    """Forget exactly one session. Raises `ValueError` when it has no name."""
    if not isinstance(session, str) or not session:
        raise ValueError(f"a reset must name its session, not {session!r}: it would clear everyone")
    return _request("reset", {"options": {"session_ids": [session]}}, token)


def _request(endpoint: str, data: Message | None, token: str) -> bytes:
    message: dict[str, object] = {"endpoint": endpoint}
    if data is not None:
        message["data"] = data
    if token:
        message["api_token"] = token
    return encode(message)
