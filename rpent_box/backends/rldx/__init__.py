# SPDX-License-Identifier: Apache-2.0
"""RLDX-1 on RoboCasa, through its own server. Its weights are non-commercial."""

from __future__ import annotations

from rpent_box.backends.rldx.spec import BACKEND

__all__ = ["BACKEND"]
