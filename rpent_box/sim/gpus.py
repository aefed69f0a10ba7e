# SPDX-License-Identifier: Apache-2.0
"""Which GPUs and which driver a machine has, for results."""

from __future__ import annotations

import subprocess

from msgspec import Struct

QUERY = ("nvidia-smi", "--query-gpu=name,uuid,driver_version", "--format=csv,noheader")
TIMEOUT_S = 20.0
"""A driver that nothing keeps loaded takes seconds to answer, a broken one does not at all."""


class GpuFacts(Struct, frozen=True, kw_only=True):
    """One GPU as its driver names it."""

    name: str
    uuid: str
    driver: str


def gpu_facts() -> tuple[GpuFacts, ...]:
    """Ask NVIDIA's driver; nothing where there is none, or where it does not answer in time."""
    try:
        answer = subprocess.run(
            QUERY, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return parse_gpus(answer.stdout.decode(errors="replace"))


def parse_gpus(text: str) -> tuple[GpuFacts, ...]:
    """Read `nvidia-smi`'s table of name, UUID and driver."""
    gpus = []
    for line in text.splitlines():
        # From the right: a name may hold a comma, the other two do not.
        cells = [cell.strip() for cell in line.rsplit(",", 2)]
        if len(cells) == 3 and cells[1].startswith(("GPU-", "MIG-")):
            gpus.append(GpuFacts(name=cells[0], uuid=cells[1], driver=cells[2]))
    return tuple(gpus)
