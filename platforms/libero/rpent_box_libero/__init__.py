# SPDX-License-Identifier: Apache-2.0
"""LIBERO for rpent-box. Importing this imports no simulator."""

from rpent_box_libero.plugin import PLATFORM

__all__ = ["PLATFORM"]
