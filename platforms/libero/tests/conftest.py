# SPDX-License-Identifier: Apache-2.0
"""The renderer is chosen before anything imports the simulator."""

from __future__ import annotations

import os

from rpent_box_libero import PLATFORM

for _name, _value in PLATFORM.environment.items():
    os.environ.setdefault(_name, _value)
