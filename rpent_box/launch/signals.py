# SPDX-License-Identifier: Apache-2.0
"""Ends a command as Ctrl-C does when it is told to end, so that its `with` blocks clean up."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def unwinding_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into `SystemExit` with the code that a shell gives, 128 + n.

    For the main thread only. Without it both end Python at once, and the reaper has to clean up.
    What is ignored stays so: `nohup rpent-box serve …` must outlive its terminal.
    """

    def unwind(number: int, _frame: FrameType | None) -> None:
        # A second one must not cut the cleaning short.
        for one in heeded:
            signal.signal(one, signal.SIG_IGN)
        raise SystemExit(128 + number)

    heeded = [one for one in _ENDING if signal.getsignal(one) is not signal.SIG_IGN]
    before = {number: signal.signal(number, unwind) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
