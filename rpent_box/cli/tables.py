# SPDX-License-Identifier: Apache-2.0
"""Plain tables: aligned columns that survive a pipe, a log and a copy."""

from __future__ import annotations

from collections.abc import Sequence

GAP = "  "


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "") -> str:
    """Return `header` and `rows` as lines; columns of numbers are aligned to the right."""
    if not rows:
        return ""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    numeric = [all(_is_number(cell) for cell in column[1:]) for column in columns]
    lines = []
    for row in (header, *rows):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append((indent + GAP.join(cells)).rstrip())
    return "\n".join(lines) + "\n"


def seconds(value: float) -> str:
    """Return a duration as a person reads it: `0.84 s`, `12.3 s`, `3 min 05 s`."""
    if value < 1:
        return f"{value:.2f} s"
    if value < 120:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def percent(part: float, whole: float) -> str:
    """Return `part` of `whole` in percent, or nothing when there is no whole."""
    return f"{100 * part / whole:.0f}%" if whole > 0 else ""


def _is_number(cell: str) -> bool:
    number = cell.split(" ")[0].rstrip("%s")
    return not cell or number.replace(".", "", 1).replace("-", "", 1).isdigit()
