# SPDX-License-Identifier: Apache-2.0
"""What is known about fast-wam without loading it."""

from __future__ import annotations

from pathlib import Path

from rpent_box.backends.fast_wam.options import FastWamOptions
from rpent_box.contracts.checkpoint import Inspection
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA, ROBOTWIN_QPOS14
from rpent_box.worker.backend import Backend, BackendSpec, LoadContext


def _load(options: FastWamOptions, context: LoadContext) -> Backend:
    from rpent_box.backends.fast_wam.model import load

    return load(options, context)


def _inspect(options: FastWamOptions, path: Path, platform: str) -> Inspection:
    from rpent_box.backends.fast_wam.checkpoint import inspect

    return inspect(options, path, platform)


BACKEND = BackendSpec(
    name="fast-wam",
    kind="wam",
    summary="FastWAM (Wan2.2 5B with an action expert): actions without imagining the future",
    env_fallbacks={"DIFFSYNTH_MODEL_BASE_PATH": "model_base_path"},
    options=FastWamOptions,
    load=_load,
    inspect=_inspect,
    platforms=("libero", "libero-pro", "robotwin"),
    action_spaces=(LIBERO_OSC_DELTA.id, ROBOTWIN_QPOS14.id),
    aliases=("fastwam",),
    variants=("cpu",),
    python="3.11",
    memory="24 to 28 GB of GPU memory (estimate, bfloat16)",
    licence="code MIT; weights: their authors' own terms",
    proof="adapters equal FastWAM's own code bit for bit; its real code runs with tiny random "
    "weights on a CPU; not yet run with the released weights",
)
