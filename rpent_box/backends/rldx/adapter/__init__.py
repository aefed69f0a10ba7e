# SPDX-License-Identifier: Apache-2.0
"""What lies between RLDX and each platform."""

from __future__ import annotations

from rpent_box.backends.rldx.adapter.pair import ADAPTERS, RldxAdapter

__all__ = ["ADAPTERS", "RldxAdapter"]
