# SPDX-License-Identifier: Apache-2.0
"""What is known about lingbot without loading it."""

from __future__ import annotations

from pathlib import Path

from rpent_box.backends.lingbot.options import LingbotOptions
from rpent_box.contracts.checkpoint import Inspection
from rpent_box.contracts.spaces import ROBOTWIN_EEF16
from rpent_box.worker.backend import Backend, BackendSpec, LoadContext


def _load(options: LingbotOptions, context: LoadContext) -> Backend:
    from rpent_box.backends.lingbot.model import load

    return load(options, context)


def _inspect(options: LingbotOptions, path: Path, platform: str) -> Inspection:
    from rpent_box.backends.lingbot.checkpoint import inspect

    return inspect(options, path, platform)


BACKEND = BackendSpec(
    name="lingbot",
    kind="vla",
    summary="LingBot-VLA for RoboTwin's two arms, absolute end-effector poses, on a GPU",
    env_fallbacks={"QWEN25_PATH": "qwen_path"},
    options=LingbotOptions,
    load=_load,
    inspect=_inspect,
    platforms=("robotwin",),
    action_spaces=(ROBOTWIN_EEF16.id,),
    aliases=("lingbot-vla",),
    borrows="service",
    python="3.11",
    memory="17 GB of GPU memory while loading (estimate from its 4.2 billion parameters)",
    licence="code Apache-2.0; weights: none stated; with Qwen Research's files: non-commercial",
    non_commercial=True,
    proof="wire equal to the package's; spoken with its server; its real code runs with tiny "
    "random weights on a CPU; not yet run with the released weights",
)
