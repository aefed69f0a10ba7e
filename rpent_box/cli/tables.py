# SPDX-License-Identifier: Apache-2.0
"""Plain tables: aligned columns that survive a pipe, a log and a copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rpent_box.contracts.control_messages import EpisodePlayed
from rpent_box.evaluate.statistics import total_remarks

GAP = "  "
LABEL = 11
"""Columns before the text of a labelled line."""


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "") -> str:
    """Return `header` and `rows` as lines; columns of numbers are aligned to the right."""
    if not rows:
        return ""
    rows = [[_on_one_line(cell) for cell in row] for row in rows]
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


def about(value: float) -> str:
    """Return a duration that is only guessed: `a few seconds`, `about 12 min`, `about 2 days`."""
    minutes = round(value / 60)
    if minutes < 1:
        return "half a minute" if value >= 15 else "a few seconds"
    if minutes < 60:
        return f"about {minutes} min"
    if minutes < 48 * 60:
        hours, rest = divmod(5 * round(minutes / 5), 60)
        return f"about {hours} h {rest:02d} min"
    return f"about {round(minutes / 60 / 24)} days"


def percent(part: float, whole: float) -> str:
    """Return `part` of `whole` in percent, or nothing when there is no whole."""
    return f"{100 * part / whole:.0f}%" if whole > 0 else ""


def labelled(label: str, text: str, *, width: int = LABEL) -> str:
    """Return a line: what it tells of, and what it tells."""
    return f"{label:<{width}}{text}\n"


def remarked(rows: Iterable[EpisodePlayed]) -> str:
    """Return a line for each thing that the platform remarked on; the commonest first."""
    rows = list(rows)
    total = sum(row.steps for row in rows)
    return "".join(
        labelled("note", f"{remark}: in {steps} of {total} steps")
        for remark, steps in total_remarks(row.remarks for row in rows).items()
    )


def _on_one_line(cell: str) -> str:
    """Spell out what would move a terminal's cursor: names come from plugins and from files."""
    if cell.isprintable():
        return cell
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in cell)


def _is_number(cell: str) -> bool:
    number = cell.split(" ")[0].rstrip("%s")
    return not cell or number.replace(".", "", 1).replace("-", "", 1).isdigit()
