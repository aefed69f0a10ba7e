# SPDX-License-Identifier: Apache-2.0
"""How a platform's observations go in and its actions come out: one pair per platform."""

from __future__ import annotations

from rpent_box.backends.cosmos3.adapter.pairs import ADAPTERS
from rpent_box.backends.cosmos3.adapter.recipe import Recipe

__all__ = ["ADAPTERS", "Recipe"]
