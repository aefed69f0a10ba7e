# SPDX-License-Identifier: Apache-2.0
"""Episodes as CSV: UTF-8, one header, lines that end in `\\n`, `true` and `false`, empty: missing.

A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, also one that came
with somebody else's results. Such texts get an apostrophe before them; numbers stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rpent_box.report.load import Entry
from rpent_box.report.table import COLUMNS, Value, table_of

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NEEDS_QUOTES = re.compile(r'[",\r\n]|^\s|\s$|^$')
"""Python's own writer leaves a carriage return bare when lines do not end in one."""


def to_csv(entries: Sequence[Entry]) -> bytes:
    """Return the table of `entries`."""
    lines = [",".join(column.name for column in COLUMNS)]
    lines += [",".join(map(_cell, values)) for values in table_of(entries)]
    return "".join(f"{line}\n" for line in lines).encode()


def _cell(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(f"'{value}" if value.startswith(_FORMULA) else value)
    return repr(value)


def _text(text: str) -> str:
    if not _NEEDS_QUOTES.search(text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
