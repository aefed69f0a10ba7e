# SPDX-License-Identifier: Apache-2.0
"""Cosmos3: a world action model that an SGLang service computes; the worker is its client."""

from __future__ import annotations

from rpent_box.backends.cosmos3.spec import BACKEND

__all__ = ["BACKEND"]
