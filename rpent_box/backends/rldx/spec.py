# SPDX-License-Identifier: Apache-2.0
"""What is known about rldx without loading it."""

from __future__ import annotations

from pathlib import Path

from rpent_box.backends.rldx.options import RldxOptions
from rpent_box.contracts.checkpoint import Inspection
from rpent_box.contracts.spaces import ROBOCASA_12
from rpent_box.worker.backend import Backend, BackendSpec, LoadContext


def _load(options: RldxOptions, context: LoadContext) -> Backend:
    from rpent_box.backends.rldx.loading import load

    return load(options, context)


def _inspect(options: RldxOptions, path: Path, platform: str) -> Inspection:
    from rpent_box.backends.rldx.checkpoint import inspect

    return inspect(options, path, platform)


BACKEND = BackendSpec(
    name="rldx",
    kind="vla",
    summary="RLDX-1 for RoboCasa, with memory and real-time chunking; non-commercial weights",
    options=RldxOptions,
    load=_load,
    platforms=("robocasa",),
    action_spaces=(ROBOCASA_12.id,),
    inspect=_inspect,
    borrows="service",
    python="3.10",
    memory="14 to 17 GB of GPU memory",
    licence="code: Apache-2.0; WEIGHTS NON-COMMERCIAL: RLWRLD Model License v1.0",
    non_commercial=True,
    proof="wire equal to the package's, byte for byte; spoken with its server; its whole code ran "
    "with tiny random weights on a CPU; never with real weights",
)
