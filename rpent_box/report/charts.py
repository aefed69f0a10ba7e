# SPDX-License-Identifier: Apache-2.0
"""Charts as inline SVG. Colours are classes of the page's style; no text is trusted.

Each chart is one picture to a screen reader, described by its label; what it shows stands in a
table too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup, escape

from rpent_box.contracts.messages import Histogram
from rpent_box.report.times import EPISODE_STAGES, SIMULATOR_STAGES
from rpent_box.report.words import interval, number, percent, points, seconds

Number = float | int

KNOWN_STAGES = frozenset({*EPISODE_STAGES, *SIMULATOR_STAGES, "busy", "gathering"})

TRACK = 240.0
"""Width of a bar in a table."""
PLOT = (360.0, 132.0)
"""Width and height of a histogram, with its labels."""
BINS = 22
NARROW = 6
"""Columns at least as narrow as if there were so many."""
MOST_COLUMNS = 128
"""Sizes of batches that are drawn with their gaps; of larger ones, only those that there were."""
MOST_LABELS = 16
"""Columns that each have a label of their own; of more, only the ends have one."""


def tag(name: str, *children: str | Markup, **attributes: object) -> Markup:
    """Return an element; attributes and children that are no markup are escaped."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = Markup("").join(children)
    return Markup(f"<{name}{words}>{inside}</{name}>")  # noqa: S704 - made of escaped parts


def rate_bar(rate: float | None, bounds: tuple[float, float]) -> Markup:
    """Return a success rate with its interval on a track from 0 to 100 %."""
    if rate is None:
        return _picture((TRACK, 20), "nothing was played", _track(TRACK))
    return _picture(
        (TRACK, 20),
        f"{percent(rate)}, 95% interval {interval(bounds)}",
        _track(TRACK),
        *(_line(x * TRACK, 6, x * TRACK, 14, "quarter") for x in (0.25, 0.5, 0.75)),
        _rect(bounds[0] * TRACK, 7, (bounds[1] - bounds[0]) * TRACK, 6, "interval", round_=3),
        tag("circle", cx=rate * TRACK, cy=10, r=4.5, class_="point"),
    )


def difference_bar(
    difference: float | None, bounds: tuple[float, float], *, reach: float, is_shown: bool
) -> Markup:
    """Return a difference of rates with its interval on a track from -reach to +reach."""
    if difference is None:
        return _picture((TRACK, 20), "nothing to compare", _track(TRACK))

    def across(value: float) -> float:
        return (min(max(value, -reach), reach) + reach) / (2 * reach) * TRACK

    low, high = across(bounds[0]), across(bounds[1])
    kind = "shown" if is_shown else "unshown"
    return _picture(
        (TRACK, 20),
        f"{points(difference)} points, 95% interval {points(bounds[0])} to {points(bounds[1])}",
        _track(TRACK),
        _line(TRACK / 2, 1, TRACK / 2, 19, "zero"),
        _rect(low, 7, high - low, 6, f"interval {kind}", round_=3),
        tag("circle", cx=across(difference), cy=10, r=4.5, class_=f"point {kind}"),
    )


def steps_strip(solved: Sequence[int], median: float | None, max_steps: int) -> Markup:
    """Return a tick for each solved episode on a track from 0 to the step limit."""
    if not solved or median is None:
        return _picture((TRACK / 2, 20), "no episode was solved", _track(TRACK / 2))
    width = TRACK / 2

    def across(steps: float) -> float:
        return min(1.0, steps / max(1, max_steps)) * width

    middle = across(median)
    return _picture(
        (width, 20),
        f"solved in {number(solved[0])} to {number(solved[-1])} steps, median {number(median)}",
        _track(width),
        *(_line(across(steps), 5, across(steps), 15, "tick") for steps in solved),
        _line(middle, 2, middle, 18, "middle"),
    )


def lengths(solved: Sequence[int], unsolved: Sequence[int], limit: int) -> Markup:
    """Return a histogram of episodes' steps: solved ones below, unsolved ones on top of them."""
    size = _bin_size(limit)
    bins = max(1, math.ceil(limit / size))
    below, above = _binned(solved, size, bins), _binned(unsolved, size, bins)
    most = max([a + b for a, b in zip(below, above, strict=True)] or [0]) or 1
    columns = []
    for index, (low, high) in enumerate(zip(below, above, strict=True)):
        title = (
            f"{number(index * size + 1)} to {number((index + 1) * size)} steps: "
            f"{low} solved, {high} not"
        )
        columns.append(_column(index, bins, [(low, "solved"), (high, "unsolved")], most, title))
    label = f"{len(solved)} solved and {len(unsolved)} unsolved episodes by steps, up to {limit}"
    ends = ("0", f"{number(bins * size)} steps")
    return _plot(columns, label, most=most, ends=ends)


def batch_sizes(batches: Mapping[int, int]) -> Markup:
    """Return a column for each number of observations in one inference."""
    sizes = sorted(batches)
    if sizes and sizes[-1] <= MOST_COLUMNS:
        sizes = list(range(1, sizes[-1] + 1))
    most = max(batches.values(), default=0) or 1
    has_labels = len(sizes) <= MOST_LABELS
    columns = [
        _column(
            index,
            max(len(sizes), NARROW),
            [(batches.get(size, 0), "batch")],
            most,
            _of_batch(size, batches),
            below=str(size) if has_labels else "",
        )
        for index, size in enumerate(sizes)
    ]
    label = "inferences by observations in one: " + ", ".join(
        f"{number(times)} of {size}" for size, times in batches.items()
    )
    ends = ("", "") if has_labels else (str(sizes[0]), f"{sizes[-1]} at once")
    return _plot(columns, label, most=most, ends=ends)


def durations(histogram: Histogram, label: str) -> Markup:
    """Return a histogram with the bounds that it was counted with, each as wide as any."""
    filled = [index for index, count in enumerate(histogram.counts) if count]
    first, last = (filled[0], filled[-1]) if filled else (0, 0)
    counts = histogram.counts[first : last + 1]
    most = max(counts, default=0) or 1
    columns = [
        _column(
            index,
            max(len(counts), NARROW),
            [(times, "infer")],
            most,
            _of_bin(histogram, first + index),
            below=_end_of_bin(histogram, first + index) if len(counts) <= NARROW else "",
        )
        for index, times in enumerate(counts)
    ]
    ends = (
        "0" if first == 0 else seconds(histogram.bounds[first - 1]),
        _end_of_bin(histogram, last),
    )
    return _plot(columns, label, most=most, ends=ends if len(counts) > NARROW else ("", ""))


def shares(parts: Mapping[str, float], label: str) -> Markup:
    """Return one bar that is made of `parts`, in seconds, each in its stage's colour."""
    whole = sum(parts.values()) or 1.0
    pieces, left = [], 0.0
    for name, value in parts.items():
        width = 1000 * value / whole
        title = f"{name}: {seconds(value)}, {percent(value / whole)}"
        pieces.append(_rect(left, 0, width, 34, stage_class(name), title=title))
        left += width
    told = ", ".join(f"{name} {percent(value / whole)}" for name, value in parts.items())
    # A bar without text may be stretched, so that it is as wide as a phone or a page.
    return _picture((1000, 34), f"{label}: {told}", *pieces, stretched=True)


def stage_class(name: str) -> str:
    """Return the class that colours a stage; one that is not known is grey."""
    return f"stage {name}" if name in KNOWN_STAGES else "stage unknown"


def _of_batch(size: int, batches: Mapping[int, int]) -> str:
    return f"{number(batches.get(size, 0))} inferences of {size} observation{'s' * (size > 1)}"


def _of_bin(histogram: Histogram, index: int) -> str:
    low = histogram.bounds[index - 1] if index else 0.0
    high = f"to {seconds(histogram.bounds[index])}" if index < len(histogram.bounds) else "and more"
    return f"{seconds(low)} {high}: {number(histogram.counts[index])}"


def _end_of_bin(histogram: Histogram, index: int) -> str:
    return seconds(histogram.bounds[index]) if index < len(histogram.bounds) else "more"


def _bin_size(limit: int) -> int:
    """Return a round number of steps that makes about `BINS` columns."""
    for decade in (1, 10, 100, 1000, 10_000):
        for step in (1, 2, 5):
            if limit <= step * decade * BINS:
                return step * decade
    return math.ceil(limit / BINS)


def _binned(values: Iterable[int], size: int, bins: int) -> list[int]:
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, max(0, value - 1) // size)] += 1
    return counts


def _column(
    index: int,
    columns: int,
    parts: Sequence[tuple[int, str]],
    most: int,
    title: str,
    *,
    below: str = "",
) -> Markup:
    left, top, width, height = _area()
    step = width / columns
    x, base = left + index * step, top + height
    pieces = []
    for value, name in parts:
        tall = height * value / most
        if value:
            base -= tall
            gap = min(2.0, step * 0.2)
            pieces.append(_rect(x + gap / 2, base, max(0.5, step - gap), tall, name))
    if below:
        pieces.append(_text(x + step / 2, top + height + 15, below, "middle"))
    return tag("g", tag("title", title), *pieces)


def _plot(columns: Sequence[Markup], label: str, *, most: int, ends: tuple[str, str]) -> Markup:
    left, top, width, height = _area()
    base = top + height
    return _picture(
        PLOT,
        label,
        _line(left, top, left + width, top, "grid"),
        _line(left, top + height / 2, left + width, top + height / 2, "grid"),
        *columns,
        _line(left, base, left + width, base, "axis"),
        _text(left - 6, top + 4, number(most), "end"),
        _text(left - 6, base + 1, "0", "end"),
        *(
            _text(x, base + 15, text, anchor)
            for x, text, anchor in ((left, ends[0], "start"), (left + width, ends[1], "end"))
            if text
        ),
    )


def _area() -> tuple[float, float, float, float]:
    """Return left, top, width and height of what a histogram draws in."""
    return 34.0, 8.0, PLOT[0] - 38.0, PLOT[1] - 28.0


def _picture(
    size: tuple[float, float], label: str, *children: Markup, stretched: bool = False
) -> Markup:
    width, height = size
    return tag(
        "svg",
        *children,
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        width=None if stretched else width,
        height=height,
        preserveAspectRatio="none" if stretched else None,
        class_="stretched" if stretched else None,
        role="img",
        aria_label=label,
    )


def _track(width: float) -> Markup:
    return _rect(0, 9, width, 2, "track", round_=1)


def _rect(
    x: float,
    y: float,
    width: float,
    height: float,
    name: str,
    *,
    round_: float | None = None,
    title: str = "",
) -> Markup:
    children = [tag("title", title)] if title else []
    return tag(
        "rect", *children, x=x, y=y, width=max(0.0, width), height=height, rx=round_, class_=name
    )


def _line(x1: float, y1: float, x2: float, y2: float, name: str) -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=name)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return tag("text", text, x=x, y=y, text_anchor=anchor)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)
