# SPDX-License-Identifier: Apache-2.0
"""LIBERO and LIBERO-Pro for rpent-box. Importing this imports no simulator."""

from rpent_box_libero.plugin import PLATFORM, PRO_PLATFORM

__all__ = ["PLATFORM", "PRO_PLATFORM"]
