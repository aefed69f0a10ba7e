# SPDX-License-Identifier: Apache-2.0
"""Which GPUs there are, asked of the driver before a program that wants one is started."""

from __future__ import annotations

import subprocess
from pathlib import Path

from msgspec import Struct

from rpent_box.errors import LaunchError

ALL_GPUS = ("all",)
"""`Program.gpus` for a program that takes what it sees."""

_QUERY = ("nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader")
_TIMEOUT_S = 20.0
_DEVICE_FILES = ("nvidia*", "nvhost*", "dxg")
"""Of NVIDIA's driver, of its small boards, of Windows' subsystem."""


class Gpu(Struct, frozen=True, kw_only=True):
    """One GPU as the driver names it."""

    index: str
    """In PCI bus order."""
    uuid: str
    name: str


def installed_gpus() -> tuple[Gpu, ...]:
    """Return this machine's NVIDIA GPUs; none when no driver answers."""
    try:
        answer = subprocess.run(
            _QUERY, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return parse_gpus(answer.stdout.decode(errors="replace"))


def is_a_gpu_here(devices: Path = Path("/dev")) -> bool:
    """Say whether anything shows a GPU: the driver's device files, or nvidia-smi."""
    return any(any(devices.glob(name)) for name in _DEVICE_FILES) or bool(installed_gpus())


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Read `nvidia-smi`'s table of index, UUID and name."""
    gpus = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",", 2)]
        if len(cells) == 3:
            gpus.append(Gpu(index=cells[0], uuid=cells[1], name=cells[2]))
    return tuple(gpus)


def gpus_of(devices: str | None) -> tuple[str, ...]:
    """Read indices or UUIDs as a person gives them, with commas between them; None: none."""
    return tuple(one.strip() for one in (devices or "").split(",") if one.strip())


def check_gpus(wanted: tuple[str, ...]) -> None:
    """Raise `LaunchError` unless each of `wanted` (indices, UUIDs or their beginnings) is there."""
    if not wanted or wanted == ALL_GPUS:
        return
    installed = installed_gpus()
    for one in wanted:
        if not any(_is(one, gpu) for gpu in installed):
            raise LaunchError(f"there is no GPU {one} here", hint=_what_is_there(installed))


def _is(wanted: str, gpu: Gpu) -> bool:
    # CUDA takes the beginning of a UUID as well; a bare "GPU-" would match every one. Slices of a
    # GPU are not in the driver's table: a wrong one fails later, with CUDA's own words.
    if wanted.startswith("MIG-"):
        return True
    return wanted == gpu.index or (len(wanted) > len("GPU-") and gpu.uuid.startswith(wanted))


def _what_is_there(installed: tuple[Gpu, ...]) -> str:
    if not installed:
        return "No NVIDIA driver answers (nvidia-smi). Without a GPU, leave it out."
    names = "; ".join(f"{gpu.index} = {gpu.name} ({gpu.uuid})" for gpu in installed)
    return f"Use one of: {names}"
