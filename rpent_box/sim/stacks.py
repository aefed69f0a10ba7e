# SPDX-License-Identifier: Apache-2.0
"""Leaves in the log where every thread stands, shortly before the host takes it for hung."""

from __future__ import annotations

import faulthandler
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rpent_box.contracts.control_messages import MODEL_PHASES, Progress
from rpent_box.sim.episode import Say

PART = 0.9
"""Of the host's patience, after which the stacks are written: it kills without asking."""
STDERR = 2


@contextmanager
def stacks_when_silent(
    stall_timeout_s: float | None, prediction_timeout_s: float, say: Say
) -> Iterator[Say]:
    """Yield what to say progress with. When that is not called in time, stacks go to stderr.

    The interpreter's own thread writes them, without its lock: native code that holds that lock
    for ever is seen too. `prediction_timeout_s` comes on top where the model is waited for. With no
    `stall_timeout_s` nothing is ever written.
    """
    if stall_timeout_s is None:
        yield say
        return
    patience_s: float = stall_timeout_s

    def tell(progress: Progress) -> None:
        model_s = prediction_timeout_s if progress.phase in MODEL_PHASES else 0.0
        # A longer time than threads can wait is refused; nobody lives to see the difference.
        later_s = min(PART * (patience_s + model_s), threading.TIMEOUT_MAX / 2)
        faulthandler.dump_traceback_later(later_s, file=STDERR)
        say(progress)

    try:
        yield tell
    finally:
        faulthandler.cancel_dump_traceback_later()
