# SPDX-License-Identifier: Apache-2.0
"""Where a model shall compute, and whether it can."""

from __future__ import annotations

from rpent_box.errors import BadOption
from rpent_box.worker.backend import LoadContext


def require_device(context: LoadContext, *, sees_gpu: bool, backend: str) -> None:
    """Raise `BadOption` where there is no such device, before anything large is read."""
    if context.device == "cuda" and not sees_gpu:
        raise BadOption(
            f"{backend} shall compute on a GPU, and PyTorch sees none",
            hint="Look at: rpent-box doctor. Without a GPU: --device cpu",
        )
