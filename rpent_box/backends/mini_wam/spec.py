# SPDX-License-Identifier: Apache-2.0
"""What is known about mini-wam without loading it."""

from __future__ import annotations

from pathlib import Path

from rpent_box.backends.mini_wam.options import MiniWamOptions
from rpent_box.contracts.checkpoint import Inspection
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.worker.backend import Backend, BackendSpec, LoadContext


def _load(options: MiniWamOptions, context: LoadContext) -> Backend:
    from rpent_box.backends.mini_wam.model import load

    return load(options, context)


def _inspect(options: MiniWamOptions, path: Path, platform: str) -> Inspection:
    from rpent_box.backends.mini_wam.checkpoint import inspect

    return inspect(options, path, platform)


BACKEND = BackendSpec(
    name="mini-wam",
    kind="wam",
    summary="a small world action model with built-in weights, for LIBERO, on a CPU",
    options=MiniWamOptions,
    load=_load,
    inspect=_inspect,
    platforms=("libero", "libero-pro"),
    action_spaces=(LIBERO_OSC_DELTA.id,),
    needs_checkpoint=False,
    needs_gpu=False,
    memory="200 MB",
    licence="Apache-2.0, code and weights",
    proof="tested with its own weights, which solve 499 of libero_spatial's 500 episodes",
)
