# SPDX-License-Identifier: Apache-2.0
"""Python, the user, memory, disks, GPUs, and what killed runs have left."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

from rpent_box.cli.checks.finding import Finding, ok, warn
from rpent_box.launch.gpus import installed_gpus
from rpent_box.launch.sweep import sweep

GIB = 2**30
ENOUGH_DISK_BYTES = 10 * GIB
"""A simulator's environment takes about 2 GiB, its image as much again, models far more."""
ENOUGH_MEMORY_BYTES = 4 * GIB

NO_CAPABILITIES = 0


def check_python() -> Finding:
    """The interpreter that runs this command. Programs in boxes have their own."""
    return ok("python", f"{platform.python_version()} at {sys.executable}")


def check_user() -> Finding:
    """Programs in boxes run as this user."""
    uid = os.geteuid()
    if uid == 0:
        return warn(
            "user",
            "this is root, so programs in boxes run as root too (without capabilities)",
            "Run rpent-box as an ordinary user.",
        )
    capabilities = _effective_capabilities()
    extra = f", effective capabilities {capabilities:#x}" if capabilities else ", no capabilities"
    return ok("user", f"uid {uid}, gid {os.getegid()}{extra}")


def check_memory() -> Finding:
    """Memory that programs may still take."""
    available = _available_memory_bytes()
    if available is None:
        return warn("memory", "/proc/meminfo does not say how much is available")
    text = f"{available / GIB:.1f} GiB available, {os.cpu_count()} cores"
    if available < ENOUGH_MEMORY_BYTES:
        return warn("memory", f"{text}; a simulator takes about 2 GiB", "Free some memory.")
    return ok("memory", text)


def check_disk(folder: Path) -> Finding:
    """Where environments, images and results go."""
    free = shutil.disk_usage(folder).free
    text = f"{free / GIB:.1f} GiB free at {folder}"
    if free < ENOUGH_DISK_BYTES:
        return warn("disk", text, "Free some space before building an environment or an image.")
    return ok("disk", text)


def check_gpus() -> Finding:
    """NVIDIA GPUs. Their UUIDs are what to give: EGL, CUDA and nvidia-smi count differently."""
    gpus = installed_gpus()
    if not gpus:
        return ok("gpus", "none (no NVIDIA driver answers); the built-in model needs none")
    return ok("gpus", "; ".join(f"{gpu.index}: {gpu.name} ({gpu.uuid})" for gpu in gpus))


def check_leftovers(runtime_dir: Path | None = None) -> Finding:
    """Dead boxes and shared memory without an owner: looked at, and left alone."""
    report = sweep(runtime_dir, dry_run=True)
    parts = [f"dead boxes: {', '.join(report.boxes)}"] * bool(report.boxes)
    parts += [f"programs of theirs: {', '.join(report.programs)}"] * bool(report.programs)
    parts += [f"shared memory without an owner: {', '.join(report.segments)}"] * bool(
        report.segments
    )
    return warn("leftovers", "; ".join(parts), "rpent-box gc") if parts else ok("leftovers", "none")


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return NO_CAPABILITIES


def _available_memory_bytes() -> int | None:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
