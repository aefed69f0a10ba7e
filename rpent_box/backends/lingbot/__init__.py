# SPDX-License-Identifier: Apache-2.0
"""lingbot: LingBot-VLA on RoboTwin's two arms, through the model's own WebSocket service."""

from __future__ import annotations

from rpent_box.backends.lingbot.spec import BACKEND

__all__ = ["BACKEND"]
