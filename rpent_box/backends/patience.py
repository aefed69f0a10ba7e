# SPDX-License-Identifier: Apache-2.0
"""How long a worker may be told to wait."""

from __future__ import annotations

LONGEST_S = 24 * 3600.0
"""Seconds. More than this is a slip of the pen and no patience, and infinity is no deadline."""
