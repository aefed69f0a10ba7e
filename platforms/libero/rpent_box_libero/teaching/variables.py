# SPDX-License-Identifier: Apache-2.0
"""Environment variables of the programs that play with one simulator per core."""

from __future__ import annotations

import os

from rpent_box_libero.plugin import PLATFORM

MATHS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
DRAWING = "LP_NUM_THREADS"
"""Of Mesa's software renderer. It changes no pixel: threads share a frame's tiles."""


def set_variables() -> None:
    """Set what MuJoCo, Mesa and the maths libraries read when they are imported or first used.

    Call it before any of them is imported; the processes of a crew inherit it. The renderer and its
    threads may have been chosen by the caller's environment.
    """
    for name, value in PLATFORM.environment.items():
        os.environ.setdefault(name, value)
    for name in MATHS:
        os.environ[name] = "1"
    # By default each simulator draws with a thread per core, and they wait for each other.
    os.environ.setdefault(DRAWING, "1")
