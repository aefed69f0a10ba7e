# SPDX-License-Identifier: Apache-2.0
"""What is known about cosmos3 without speaking to its service."""

from __future__ import annotations

from pathlib import Path

from rpent_box.backends.cosmos3.options import Cosmos3Options
from rpent_box.contracts.checkpoint import Inspection
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.worker.backend import Backend, BackendSpec, LoadContext


def _load(options: Cosmos3Options, context: LoadContext) -> Backend:
    from rpent_box.backends.cosmos3.model import load

    return load(options, context)


def _inspect(options: Cosmos3Options, checkpoint: Path, platform: str) -> Inspection:
    from rpent_box.backends.cosmos3.checkpoint import inspect

    return inspect(options, checkpoint, platform)


BACKEND = BackendSpec(
    name="cosmos3",
    kind="wam",
    summary="Cosmos3, a world action model served by SGLang; the worker is a thin client of it",
    options=Cosmos3Options,
    load=_load,
    inspect=_inspect,
    platforms=("libero", "libero-pro"),
    action_spaces=(LIBERO_OSC_DELTA.id,),
    aliases=("cosmos-3", "cosmos3-sglang"),
    checkpoint_is="name",
    needs_gpu=False,
    needs_network=True,
    memory="100 MB for the worker; its SGLang service more than 40 GB of GPU memory",
    licence="code: Apache-2.0; weights: the checkpoint's own, see its model card",
    proof="requests, actions and wire equal upstream's; spoken with SGLang's own router; "
    "never with real weights",
)
