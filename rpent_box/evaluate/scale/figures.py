# SPDX-License-Identifier: Apache-2.0
"""Workers' figures: asked for now and then, and those of several workers added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from operator import add, sub

from msgspec.structs import replace

from rpent_box.client.connecting import ask_figures
from rpent_box.contracts.messages import Figures, Histogram
from rpent_box.errors import RpentBoxError
from rpent_box.transport.channel import ClientChannel

ASK_S = 2.0

_SUMS = ("ready_s", "busy_s", "gathering_s", "idle_s", "served", "refused")


class FiguresLine:
    """Asks a worker over a connection that is made when it is needed. Belongs to one thread."""

    def __init__(self) -> None:
        self._channel: ClientChannel | None = None
        self._first: Figures | None = None

    def ask(self, endpoint: str, *, borrowed: bool) -> Figures | None:
        """Return what the worker counted: of a borrowed one, since it was first asked.

        None when it does not answer now.
        """
        try:
            if self._channel is None:
                self._channel = ClientChannel.connect(
                    endpoint, client="evaluation", box=None, timeout_s=ASK_S
                )
            figures = ask_figures(self._channel, timeout_s=ASK_S)
        except RpentBoxError:
            # It may be out of breath, or about to be found ended.
            self.close()
            return None
        if borrowed and self._first is None:
            self._first = figures
        return since(self._first, figures)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def added(first: Figures | None, second: Figures) -> Figures:
    """Return both together; how it batches is what `second` says."""
    return second if first is None else _combined(first, second, add)


def since(first: Figures | None, now: Figures) -> Figures:
    """Return what was counted after `first`, which the same worker said earlier."""
    return now if first is None else _combined(first, now, lambda old, new: sub(new, old))


def _combined(first: Figures, second: Figures, combine: Callable[[float, float], float]) -> Figures:
    sums = {name: combine(getattr(first, name), getattr(second, name)) for name in _SUMS}
    sizes = sorted(first.batches.keys() | second.batches.keys())
    counts = Counter[int]()
    for size in sizes:
        counts[size] = int(combine(first.batches.get(size, 0), second.batches.get(size, 0)))
    return replace(
        second,
        **sums,
        batches={size: count for size, count in counts.items() if count},
        infer_s=_histogram(first.infer_s, second.infer_s, combine),
        queue_s=_histogram(first.queue_s, second.queue_s, combine),
    )


def _histogram(
    first: Histogram | None, second: Histogram | None, combine: Callable[[float, float], float]
) -> Histogram | None:
    if first is None or second is None:
        return second if first is None else first
    if first.bounds != second.bounds:
        # Of another release: they cannot be added.
        return second
    counts = zip(first.counts, second.counts, strict=True)
    return Histogram(
        bounds=second.bounds,
        counts=tuple(int(combine(old, new)) for old, new in counts),
        total=combine(first.total, second.total),
    )
