# SPDX-License-Identifier: Apache-2.0
"""The answer to a message that this version cannot read."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from rpent_box.contracts.faults import fault_from
from rpent_box.contracts.messages import Reply
from rpent_box.errors import ProtocolMismatch
from rpent_box.version import PROTOCOL_VERSION

Loose = TypeVar("Loose")


class _AnyId(msgspec.Struct, frozen=True):
    id: int = 0


class _AnyHello(msgspec.Struct, frozen=True):
    protocol: int = PROTOCOL_VERSION


class _AnyRequest(msgspec.Struct, frozen=True):
    body: _AnyHello = _AnyHello()


def refusal(raw: bytes, why: str) -> Reply:
    """Return the answer to a request that this version cannot read."""
    error = ProtocolMismatch(
        f"this worker (protocol {PROTOCOL_VERSION}) cannot read the message: {why}",
        hint="Build both images from one release of rpent-box.",
    )
    protocol = _loosely(raw, _AnyRequest, _AnyRequest()).body.protocol
    if protocol != PROTOCOL_VERSION:
        error = other_protocol(protocol)
    return Reply(id=_loosely(raw, _AnyId, _AnyId()).id, body=fault_from(error))


def _loosely(raw: bytes, kind: type[Loose], otherwise: Loose) -> Loose:
    try:
        return msgspec.msgpack.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return otherwise


def other_protocol(protocol: int) -> ProtocolMismatch:
    """Return the error for a client that speaks `protocol`."""
    return ProtocolMismatch(
        f"the client speaks protocol {protocol}, this worker {PROTOCOL_VERSION}",
        hint="Build both images from one release of rpent-box.",
    )
