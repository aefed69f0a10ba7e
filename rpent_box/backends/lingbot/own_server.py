# SPDX-License-Identifier: Apache-2.0
"""Start a LingBot server of our own, from a checkpoint, in this worker's environment."""

from __future__ import annotations

import sys
from pathlib import Path

from rpent_box.backends.lingbot.checkpoint import layout_of
from rpent_box.backends.lingbot.connection import is_healthy
from rpent_box.backends.lingbot.options import LingbotOptions
from rpent_box.backends.native_service import Listener, NativeService

SERVER = "rpent_box.backends.lingbot.server"


def start_server(folder: Path, options: LingbotOptions, *, horizon: int) -> NativeService:
    """Start the server on a free port of 127.0.0.1; it answers when its weights are loaded."""
    layout = layout_of(options, folder)
    words = [
        *(sys.executable, "-m", SERVER),
        f"--checkpoint={layout.folder}",
        f"--statistics={layout.statistics}",
        f"--robot-config={layout.robot}",
        f"--use-length={horizon}",
        f"--denoising-steps={options.num_denoising_steps}",
        "--port=0",
    ]
    environment = {
        # The package takes the place of Qwen's files from the environment alone.
        "QWEN25_PATH": str(layout.qwen),
        # It trusts them with code: they come from this machine, or not at all.
        "HF_HUB_OFFLINE": "1",
    }
    return NativeService.start("LingBot server", words, environment=environment)


def answers(listener: Listener) -> bool:
    """Return whether a LingBot server answers there."""
    return is_healthy(listener.host, listener.port)
