# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's manifest as text."""

from __future__ import annotations

import textwrap

from rpent_box.cli.tables import render_table
from rpent_box.contracts.checkpoint import CheckpointFile, CheckpointManifest

WIDTH = 100
SHOWN_HASH = 16
SHOWN_PATH = 46
"""Of a longer path the end is shown; `--json` shows all of it."""
NEVER_SAID = "any: neither the files nor you said which (--suite NAME ties them)"


def render_checkpoint(manifest: CheckpointManifest, *, note: str) -> str:
    """Return files, facts and suites; `note` is what has become of the manifest file."""
    head = f"{manifest.checkpoint}: {manifest.backend} for {manifest.platform}\n\n"
    header = ("role", "file", "size", "SHA-256")
    files = render_table(header, [_row(file) for file in manifest.files], indent="  ")
    facts = {
        **manifest.facts,
        "suites": ", ".join(manifest.suites) or NEVER_SAID,
        "manifest": note,
    }
    label = max(map(len, facts)) + 2
    return head + files + "\n" + "".join(_line(name, text, label) for name, text in facts.items())


def size_in_words(size: int) -> str:
    """Return a file's size as a person reads it: `812 B`, `4.2 kB`, `12.0 GB`."""
    number = float(size)
    for unit in ("B", "kB", "MB"):
        if number < 999.95:
            return f"{size} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def _row(file: CheckpointFile) -> tuple[str, str, str, str]:
    path = file.path
    if len(path) > SHOWN_PATH:
        path = "…" + path[1 - SHOWN_PATH :]
    return file.role, path, size_in_words(file.size), f"{file.sha256[:SHOWN_HASH]}…"


def _line(name: str, text: str, label: int) -> str:
    # Neither paths nor words with a dash may be broken: they are there to be copied.
    return (
        textwrap.fill(
            text,
            WIDTH,
            initial_indent=f"  {name:<{label}}",
            subsequent_indent=" " * (label + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
    )
