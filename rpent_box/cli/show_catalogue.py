# SPDX-License-Identifier: Apache-2.0
"""The catalogue as text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from rpent_box.cli.catalogue import (
    BackendEntry,
    Catalogue,
    Fit,
    PlatformEntry,
    Prepared,
)
from rpent_box.cli.show_suites import render_suites, render_suites_in_detail
from rpent_box.cli.tables import render_table

PAST = re.compile(r"(?P<camera>.+)_(?P<steps>\d+)_steps_ago")
LABEL = 12
WIDTH = 100
CELLS: dict[Fit, str] = {
    "fits": "yes",
    "no plugin": "adapter",
    "no adapter": "-",
    "other action space": "no",
}
LEGEND = "  adapter: the backend has one; a plugin of that platform makes it a pair.\n\n"


def render_catalogue(catalogue: Catalogue, *, in_detail: bool) -> str:
    """Return one screen: backends, platforms, suites; with tasks when `in_detail`."""
    parts = [] if in_detail else [_matrix(catalogue)]
    parts += ["BACKENDS\n", *(_backend(entry) for entry in catalogue.backends)]
    if not catalogue.backends:
        parts.append("  none\n")
    parts.append("\nPLATFORMS\n")
    parts += [_platform(entry, in_detail=in_detail) for entry in catalogue.platforms]
    if not catalogue.platforms:
        parts.append("  none is installed\n")
    if not in_detail and catalogue.platforms:
        parts.append(f"\nTasks: rpent-box list --platform {catalogue.platforms[0].name}\n")
    return "".join(parts)


def _matrix(catalogue: Catalogue) -> str:
    """Return which backend plays on which platform, one line each."""
    rows = catalogue.matrix
    platforms = list(next(iter(rows.values()), {}))
    if not platforms:
        return ""
    missing = [name not in _installed(catalogue) for name in platforms]
    heads = ["no plugin" if one else "" for one in missing]
    lines = [("", *heads, "", "")] if any(missing) else []
    lines += [
        (
            entry.name,
            *(CELLS[rows[entry.name][platform]] for platform in platforms),
            _runs_on(entry),
            "NON-COMMERCIAL" if entry.non_commercial else "",
        )
        for entry in catalogue.backends
    ]
    table = render_table(("", *platforms, "runs on", "weights"), lines, indent="  ")
    return f"BACKENDS x PLATFORMS\n{table}\n{LEGEND if any(missing) else ''}"


def _installed(catalogue: Catalogue) -> set[str]:
    return {entry.name for entry in catalogue.platforms}


def _runs_on(entry: BackendEntry) -> str:
    if entry.checkpoint_is == "name":
        return "service"
    devices = ["gpu"] if entry.needs_gpu else ["cpu"]
    devices += [one for one in entry.variants if one not in devices]
    return ", ".join(devices + ["service"] * bool(entry.borrows))


def _device(entry: BackendEntry) -> str:
    """Return where the model computes."""
    if entry.checkpoint_is == "name":
        return "a service computes; the worker itself needs no GPU"
    text = "a GPU" if entry.needs_gpu else "the CPU"
    if entry.needs_gpu and "cpu" in entry.variants:
        text += "; or the CPU, for tests (--device cpu)"
    if entry.borrows:
        text += f"; or a service that runs already (--{entry.borrows.replace('_', '-')})"
    return text


def _fitting(entry: BackendEntry) -> str:
    """Return where it plays, and where it could if the platform were installed."""
    here = ", ".join(entry.platforms) or "no installed platform"
    rest = [name for name in entry.adapters if name not in entry.platforms]
    return f"{here}; has adapters for {', '.join(rest)} too" if rest else here


def _head(name: str, summary: str) -> str:
    first, rest = f"  {name}  ", " " * 4
    return textwrap.fill(summary, WIDTH, initial_indent=first, subsequent_indent=rest) + "\n"


def _backend(entry: BackendEntry) -> str:
    weights = {"path": "a checkpoint", "name": "a service that has loaded a checkpoint"}
    needs = [weights[entry.checkpoint_is]] * entry.needs_checkpoint
    needs += [entry.memory] * bool(entry.memory)
    kind = {"vla": "vla (vision, language, action)", "wam": "wam (world action model)"}[entry.kind]
    return _head(entry.name, entry.summary) + _lines(
        ("kind", kind),
        ("fits", _fitting(entry)),
        ("acts in", ", ".join(entry.action_spaces)),
        ("needs", ", ".join(needs) or "nothing more"),
        ("runs on", _device(entry)),
        ("licence", entry.licence),
        ("weights", "NON-COMMERCIAL use only" if entry.non_commercial else ""),
        ("status", entry.proof),
        ("also called", ", ".join(entry.aliases)),
        ("prepared", _prepared(entry.prepared, entry.name)),
    )


def _platform(entry: PlatformEntry, *, in_detail: bool) -> str:
    height, width = entry.image_size
    text = _head(entry.name, entry.summary) + _lines(
        ("fits", ", ".join(entry.backends) or "no installed backend"),
        ("moves in", ", ".join(entry.action_spaces)),
        ("shows", f"{_cameras(entry.camera_roles)}, {height}x{width}"),
        ("needs", ", ".join(part for part in (f"Python {entry.python}", entry.memory) if part)),
        ("licence", entry.licence),
        ("also called", ", ".join(entry.aliases)),
        ("prepared", _prepared(entry.prepared, entry.recipe)),
    )
    if in_detail:
        return text + _options(entry) + render_suites_in_detail(entry)
    return text + render_suites(entry)


def _options(entry: PlatformEntry) -> str:
    head = "\n    options of rpent-box run, also as --platform-option KEY=VALUE:\n"
    rows = [f"{_flag(entry, key)}: {text}" for key, text in entry.options.items()]
    rows += [
        f"{variable} stands in for {_flag(entry, key)}"
        for variable, key in entry.env_fallbacks.items()
    ]
    first, rest = " " * 6, " " * 8
    lines = [
        textwrap.fill(
            row, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        )
        for row in rows
    ]
    return head + "\n".join(lines) + "\n" if rows else ""


def _cameras(roles: Sequence[str]) -> str:
    """Return the cameras; what each showed some steps ago is not named once more."""
    past = [match for match in map(PAST.fullmatch, roles) if match]
    now = [role for role in roles if not PAST.fullmatch(role)]
    steps = list(dict.fromkeys(match["steps"] for match in past))
    if not past or len(past) != len(now) * len(steps):
        return ", ".join(roles)
    ago = " and ".join(part for part in (", ".join(steps[:-1]), steps[-1]) if part)
    return f"{', '.join(now)}, each also {ago} steps ago"


def _flag(entry: PlatformEntry, key: str) -> str:
    return f"--{entry.name}-{key.replace('_', '-')}"


_IMAGES = {
    "ready": "image built",
    "stale": "image older than this checkout",
    "missing": "image not built",
}


def _prepared(prepared: Prepared, name: str) -> str:
    if prepared.image == prepared.environment == "no recipe":
        return "by whoever installed it"
    image = _IMAGES.get(prepared.image, "no Docker engine answers")
    ready = prepared.environment == "ready"
    text = f"{image}, environment {'built' if ready else 'not built'}"
    if prepared.image == "stale" or (prepared.image != "ready" and not ready):
        text += f" (rpent-box build {name})"
    return text + "".join(
        f"; {variant} {_IMAGES[built]}"
        for variant, built in prepared.variants.items()
        if built in _IMAGES
    )


def _lines(*pairs: tuple[str, str]) -> str:
    indent = " " * (4 + LABEL)
    return "".join(
        textwrap.fill(text, WIDTH, initial_indent=f"    {label:<{LABEL}}", subsequent_indent=indent)
        + "\n"
        for label, text in pairs
        if text
    )
