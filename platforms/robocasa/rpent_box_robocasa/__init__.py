# SPDX-License-Identifier: Apache-2.0
"""RoboCasa for rpent-box. Importing this imports no simulator."""

from rpent_box_robocasa.plugin import PLATFORM

__all__ = ["PLATFORM"]
