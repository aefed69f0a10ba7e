# SPDX-License-Identifier: Apache-2.0
"""Demonstrations in LeRobot's v3.0 dataset layout; `layout.py` describes it."""
