# SPDX-License-Identifier: Apache-2.0
"""fast-wam: FastWAM on LIBERO, LIBERO-Pro and RoboTwin."""

from __future__ import annotations

from rpent_box.backends.fast_wam.spec import BACKEND

__all__ = ["BACKEND"]
