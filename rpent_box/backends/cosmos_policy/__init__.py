# SPDX-License-Identifier: Apache-2.0
"""cosmos-policy: NVIDIA's Cosmos Policy on LIBERO, through its own inference code."""

from __future__ import annotations

from rpent_box.backends.cosmos_policy.spec import BACKEND

__all__ = ["BACKEND"]
