# SPDX-License-Identifier: Apache-2.0
"""What is known about cosmos-policy without loading it."""

from __future__ import annotations

from pathlib import Path

from rpent_box.backends.cosmos_policy.options import CosmosPolicyOptions
from rpent_box.contracts.checkpoint import Inspection
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.worker.backend import Backend, BackendSpec, LoadContext


def _load(options: CosmosPolicyOptions, context: LoadContext) -> Backend:
    from rpent_box.backends.cosmos_policy.model import load

    return load(options, context)


def _inspect(options: CosmosPolicyOptions, path: Path, platform: str) -> Inspection:
    from rpent_box.backends.cosmos_policy.checkpoint import inspect

    return inspect(options, path, platform)


BACKEND = BackendSpec(
    name="cosmos-policy",
    kind="wam",
    summary="NVIDIA's Cosmos Policy (2B, on Cosmos-Predict2): actions, futures and values",
    options=CosmosPolicyOptions,
    load=_load,
    inspect=_inspect,
    platforms=("libero", "libero-pro"),
    action_spaces=(LIBERO_OSC_DELTA.id,),
    python="3.10",
    memory="6.8 GB of GPU memory (its authors' figure); more with T5-11B for new instructions",
    licence="code Apache-2.0; weights as their model cards say (NVIDIA)",
    proof="inputs and actions equal its own code's; that code ran on a CPU with a small network; "
    "never on a GPU or with real weights",
    env_fallbacks={"COSMOS_POLICY_PYTHON": "python", "COSMOS_POLICY_ROOT": "root"},
)
