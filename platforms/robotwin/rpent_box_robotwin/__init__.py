# SPDX-License-Identifier: Apache-2.0
"""RoboTwin 2.0 for rpent-box. Importing this imports no simulator."""

from rpent_box_robotwin.plugin import PLATFORM

__all__ = ["PLATFORM"]
