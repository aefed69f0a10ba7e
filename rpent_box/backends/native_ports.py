# SPDX-License-Identifier: Apache-2.0
"""Where a process listens, as the kernel knows it, and ports that are held until it does."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from msgspec import Struct

_PROC = Path("/proc")
_LISTEN = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


class Listener(Struct, frozen=True, order=True):
    """A TCP port that a process listens on."""

    port: int
    address: str
    """What it is bound to: `127.0.0.1`, or `0.0.0.0` for every address of the machine."""

    @property
    def host(self) -> str:
        """The address to connect to from this machine."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.address, self.address)

    @property
    def is_open(self) -> bool:
        """Whether other machines may reach it."""
        return self.address in ("0.0.0.0", "::")


def listeners(pid: int) -> list[Listener]:
    """Return the TCP ports that `pid` or a descendant of it listens on, lowest first."""
    inodes: set[str] = set()
    for process in (pid, *_descendants(pid)):
        inodes |= _socket_inodes(process)
    found = {
        listener
        for table in ("tcp", "tcp6")
        for inode, listener in _listening(_PROC / str(pid) / "net" / table)
        if inode in inodes
    }
    return sorted(found)


@contextmanager
def hold_port() -> Iterator[int]:
    """Give a free port of 127.0.0.1 that nobody else is given while the block lasts.

    For a server that must be told its port. The port is bound here, with SO_REUSEADDR and without
    listening: a server that sets SO_REUSEADDR as well (asyncio's and ZeroMQ's do) may bind it too,
    and the kernel gives it to nobody who asks for any port. Leave the block when the server
    listens; that it is ours and no other's is seen in `listeners`.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def _descendants(pid: int) -> list[int]:
    """Return the children of `pid`, their children, and so on."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            children.setdefault(_parent(entry), []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        born = children.get(waiting.pop(), [])
        found += born
        waiting += born
    return found


def _parent(process: Path) -> int:
    try:
        text = (process / "stat").read_text(errors="replace")
    except OSError:
        return 0  # It has ended.
    # The name in parentheses may hold spaces and parentheses: split behind the last one.
    return int(text.rpartition(")")[2].split()[1])


def _socket_inodes(pid: int) -> set[str]:
    found = set()
    try:
        for entry in (_PROC / str(pid) / "fd").iterdir():
            if match := _SOCKET.fullmatch(os.readlink(entry)):
                found.add(match[1])
    except OSError:
        return found  # It has ended, or closed that one meanwhile: the next look is complete.
    return found


def _listening(table: Path) -> Iterator[tuple[str, Listener]]:
    """Yield inode and place of each listening socket in a file like /proc/net/tcp."""
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        columns = line.split()
        if columns[3] == _LISTEN:
            address, _, port = columns[1].partition(":")
            yield columns[9], Listener(int(port, 16), _address(address))


def _address(text: str) -> str:
    """Return an address that the kernel printed as 32-bit words, each in this machine's order."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    if len(packed) == 4:
        return str(IPv4Address(packed))
    mapped = IPv6Address(packed).ipv4_mapped
    return str(mapped or IPv6Address(packed))
