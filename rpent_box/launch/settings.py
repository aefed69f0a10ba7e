# SPDX-License-Identifier: Apache-2.0
"""Variables that every program gets, whichever way it is started."""

from __future__ import annotations

from rpent_box.launch.program import Program

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def common_environment(program: Program) -> dict[str, str]:
    """Return the variables for `program`: threads, output and crash reports, nothing of ours."""
    threads = {name: str(program.threads) for name in _THREAD_VARIABLES}
    # Output reaches the log at once, and a crash in native code leaves its Python stack there.
    return {**threads, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
