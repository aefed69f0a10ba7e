# SPDX-License-Identifier: Apache-2.0
"""mini-wam: a small world action model of our own, which runs on a laptop's CPU."""

from __future__ import annotations

from rpent_box.backends.mini_wam.spec import BACKEND

__all__ = ["BACKEND"]
