# SPDX-License-Identifier: Apache-2.0
"""The catalogue as text."""

from __future__ import annotations

import textwrap

from rpent_box.cli.catalogue import (
    BackendEntry,
    Catalogue,
    Fit,
    PlatformEntry,
    Prepared,
    SuiteEntry,
)
from rpent_box.cli.tables import render_table

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
        ("shows", f"{', '.join(entry.camera_roles)}, {height}x{width}"),
        ("needs", ", ".join(part for part in (f"Python {entry.python}", entry.memory) if part)),
        ("licence", entry.licence),
        ("also called", ", ".join(entry.aliases)),
        ("prepared", _prepared(entry.prepared, entry.name)),
    )
    if in_detail:
        return text + _options(entry) + "".join(_suite_with_tasks(suite) for suite in entry.suites)
    return text + _suites(entry)


def _options(entry: PlatformEntry) -> str:
    head = "\n    options: rpent-box run --platform-option KEY=VALUE\n"
    rows = [f"      {key}: {text}\n" for key, text in entry.options.items()]
    return "".join([head, *rows]) if rows else ""


def _suites(entry: PlatformEntry) -> str:
    rows = [
        (
            suite.name + (" (default)" if suite.name == entry.default_suite else ""),
            str(suite.tasks),
            str(suite.init_states) if suite.init_states else "any seed",
            str(suite.max_steps),
            f"not here: {suite.unavailable}" if suite.unavailable else "",
        )
        for suite in entry.suites
    ]
    header = ("suite", "tasks", "init states", "max steps", "")
    return render_table(header, rows, indent="    ")


def _suite_with_tasks(suite: SuiteEntry) -> str:
    if suite.unavailable:
        return f"\n    {suite.name}: not here: {suite.unavailable}\n"
    states = f"{suite.init_states} initial states each, " if suite.init_states else ""
    head = f"\n    {suite.name}: {suite.tasks} tasks, {states}{suite.max_steps} steps at most\n"
    return head + "".join(
        f"    {number:4d}  {name}\n" for number, name in enumerate(suite.task_names)
    )


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
