# SPDX-License-Identifier: Apache-2.0
"""Tables and targets, from the measured seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.transport import entrants
from benchmarks.transport.cases import CASES
from benchmarks.transport.entrants import Entrant

PACES = {"hot": 0.0, "paced": 0.005}

Results = dict[tuple[str, int, str], list[float]]
"""(label, case, `hot` or `paced`) → seconds of each call."""


@dataclass(frozen=True)
class Check:
    """One target, and whether it was met."""

    text: str
    met: bool


def quantile(seconds: Sequence[float], part: float) -> float:
    """Return the value below which `part` of the calls lie, in microseconds."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] * 1e6


def tables(results: Results, labels: Sequence[str]) -> Iterator[str]:
    """Yield the lines of one table per case."""
    for number, case in enumerate(CASES):
        yield ""
        yield f"{case.name}: {case.nbytes / 1e6:.2f} MB, round trip in microseconds"
        yield f"{'':30}{'hot p50':>10}{'hot p99':>10}{'paced p50':>11}{'paced p99':>11}{'ratio':>8}"
        ours = _median(results, entrants.OURS, number, "hot")
        for label in labels:
            cells = [
                quantile(results[label, number, pace], part)
                for pace in PACES
                for part in (0.5, 0.99)
            ]
            hot50, hot99, paced50, paced99 = cells
            yield (
                f"{label:30}{hot50:10.0f}{hot99:10.0f}{paced50:11.0f}{paced99:11.0f}"
                f"{hot50 / ours:7.1f}x"
            )
        floor = _median(results, entrants.MEMCPY, number, "hot")
        bare = _median(results, entrants.BARE, number, "hot")
        yield f"round trip minus one memcpy, hot p50: {ours - floor:.0f} us"
        yield f"of which a bare ZeroMQ takes {bare - floor:.0f} us on this machine"


def checks(results: Results, *, with_container: bool) -> list[Check]:
    """Return the targets, hot p50."""

    def hot(entrant: Entrant, case: int) -> float:
        return _median(results, entrant, case, "hot")

    found = [
        _overhead(
            hot(entrants.OURS, 0) - hot(entrants.MEMCPY, 0),
            hot(entrants.BARE, 0) - hot(entrants.MEMCPY, 0),
        )
    ]
    found += [
        _faster(hot, entrants.WEBSOCKET, 0, 3.0),
        _faster(hot, entrants.WEBSOCKET_TUNED, 0, 3.0),
        _faster(hot, entrants.WEBSOCKET, 1, 10.0),
        _faster(hot, entrants.WEBSOCKET_TUNED, 1, 10.0),
    ]
    found += [_faster(hot, entrants.HTTP, case, 40.0) for case in range(len(CASES))]
    if with_container:
        for case in range(len(CASES)):
            ratio = hot(entrants.OURS_IN_CONTAINER, case) / hot(entrants.OURS, case)
            text = f"{CASES[case].name}: a container costs {ratio:.2f}x a process (at most 1.25x)"
            found.append(Check(text, ratio <= 1.25))
    return found


def as_json(results: Results) -> list[dict[str, str | float | int]]:
    """Return one flat record per cell."""
    return [
        {
            "line": label,
            "case": CASES[case].name,
            "bytes": CASES[case].nbytes,
            "pace": pace,
            "calls": len(seconds),
            "p50_us": round(quantile(seconds, 0.5), 1),
            "p99_us": round(quantile(seconds, 0.99), 1),
        }
        for (label, case, pace), seconds in results.items()
    ]


def _median(results: Results, entrant: Entrant, case: int, pace: str) -> float:
    return quantile(results[entrant.label, case, pace], 0.5)


def _overhead(overhead_us: float, bare_us: float) -> Check:
    text = (
        f"{CASES[0].name}: round trip minus one memcpy is {overhead_us:.0f} us (at most 150; "
        f"bare ZeroMQ here: {bare_us:.0f})"
    )
    return Check(text, overhead_us <= 150.0)


def _faster(
    hot: Callable[[Entrant, int], float], rival: Entrant, case: int, wanted: float
) -> Check:
    ratio = hot(rival, case) / hot(entrants.OURS, case)
    possible = hot(rival, case) / hot(entrants.BARE, case)
    text = (
        f"{CASES[case].name}: {ratio:.1f}x faster than {rival.label} (at least {wanted:.0f}x; "
        f"one copy and a bare ZeroMQ would give {possible:.1f}x here)"
    )
    return Check(text, ratio >= wanted)
