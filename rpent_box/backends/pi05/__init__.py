# SPDX-License-Identifier: Apache-2.0
"""pi05: Physical Intelligence's Pi0.5 on LIBERO, through openpi's PyTorch policy."""

from __future__ import annotations

from rpent_box.backends.pi05.spec import BACKEND

__all__ = ["BACKEND"]
