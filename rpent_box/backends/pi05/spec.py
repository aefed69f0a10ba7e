# SPDX-License-Identifier: Apache-2.0
"""What is known about pi05 without loading it."""

from __future__ import annotations

from pathlib import Path

from rpent_box.backends.pi05.options import Pi05Options
from rpent_box.contracts.checkpoint import Inspection
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.worker.backend import Backend, BackendSpec, LoadContext


def _load(options: Pi05Options, context: LoadContext) -> Backend:
    from rpent_box.backends.pi05.model import load

    return load(options, context)


def _inspect(options: Pi05Options, path: Path, platform: str) -> Inspection:
    from rpent_box.backends.pi05.checkpoint import inspect

    return inspect(options, path, platform)


BACKEND = BackendSpec(
    name="pi05",
    kind="vla",
    summary="Pi0.5, a vision-language-action model, through openpi's PyTorch policy",
    env_fallbacks={"OPENPI_DATA_HOME": "tokenizer"},
    options=Pi05Options,
    load=_load,
    inspect=_inspect,
    platforms=("libero", "libero-pro"),
    action_spaces=(LIBERO_OSC_DELTA.id,),
    aliases=("pi0.5", "pi0-5", "openpi"),
    variants=("cpu",),
    python="3.11",
    memory="more than 8 GB of GPU memory",
    licence="code: Apache-2.0; weights: Gemma's terms of use",
    proof="images, state and actions equal upstream's; upstream's own code run on a CPU with "
    "tiny weights; never with real weights",
)
