# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file that needs nothing else, asks nobody for anything and runs no program.

Everything that comes from a run's folder is text to it: jinja2 escapes what the templates print,
charts escape their own, and the page's policy forbids scripts and requests of any kind.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from markupsafe import Markup
from msgspec import Struct

from rpent_box.contracts.control_messages import Restart
from rpent_box.errors import LaunchError
from rpent_box.evaluate.scale.manifest import EvalManifest, FailedAttempt, Session
from rpent_box.evaluate.scale.plan import JobKey
from rpent_box.evaluate.statistics import LEVEL
from rpent_box.report import charts, words
from rpent_box.report.compare import Comparison, compare
from rpent_box.report.figures import EntryFigures, SuiteScore, figures_of
from rpent_box.report.load import Entry, Folder
from rpent_box.report.media import DEFAULT_LIMIT_MB, Album, EmbedVideos, Gallery
from rpent_box.report.setup import KIND_IN_WORDS, KINDS, Difference, Kind, Setup
from rpent_box.report.times import WAITING, WITHOUT_MODEL, quantile
from rpent_box.sim.manifest import HostFacts
from rpent_box.sim.results import EpisodeRow
from rpent_box.sim.secrets import hide_secrets
from rpent_box.version import __version__

if TYPE_CHECKING:
    import jinja2

TEMPLATES = "templates"
STYLE = "style.css"

STAGES_IN_WORDS: Mapping[str, str] = {
    "starting": "starting",
    "resetting": "building scenes",
    "simulate": "simulating",
    "render": "rendering",
    "transport": "transport",
    "queue": "queue",
    "encode": "encoding",
    "infer": "inference",
    "decode": "decoding",
    "predicting": "waiting for the model",
    "other": "other",
    "video": "writing videos",
    "lost": "lost with a simulator",
    "idle": "idle",
    "busy": "busy",
    "gathering": "gathering a batch",
}


class EntryView(Struct, frozen=True, kw_only=True):
    """One result, as the templates read it."""

    letter: str
    """`A`, `B`, … when there are several; else empty."""
    title: str
    entry: Entry
    figures: EntryFigures
    gallery: Gallery

    @property
    def id(self) -> str:
        return f"{self.letter.lower()}-" if self.letter else ""

    @property
    def setup(self) -> Setup:
        return self.entry.setup

    @property
    def checkpoint(self) -> str:
        return self.setup.deciding.get("worker.meta.checkpoint", "")

    @property
    def folders(self) -> tuple[Folder, ...]:
        return self.entry.folders

    @property
    def failed(self) -> list[FailedAttempt]:
        return [one for folder in self.entry.folders for one in folder.failed]

    @property
    def restarted(self) -> list[tuple[EpisodeRow, Restart]]:
        return [(row, one) for _, row in self.entry.rows() for one in row.restarts]

    @property
    def has_open_sitting(self) -> bool:
        """Some sitting never noted its end: it goes on, or was killed."""
        sittings = (one for folder in self.entry.folders for one in _sittings(folder))
        return any(one.ended_at is None for one in sittings)

    @property
    def missing(self) -> list[JobKey]:
        """Episodes that were asked for and have no result."""
        played = self.entry.keys
        asked = [one.key for folder in self.entry.folders for one in folder.asked]
        return [key for key in asked if key not in played]


def render_report(
    entries: Sequence[Entry],
    page: Path,
    *,
    videos: EmbedVideos = "failures",
    limit_mb: float = DEFAULT_LIMIT_MB,
) -> str:
    """Return the report of `entries`, which will lie at `page`: links lead from there.

    Two are compared. The same files give the same bytes. Raises `LaunchError` without jinja2.
    """
    album = Album(page, videos=videos, limit_mb=limit_mb)
    several = len(entries) > 1
    views = [
        EntryView(
            letter=chr(ord("A") + number) if several else "",
            title=title_of(entry),
            entry=entry,
            figures=figures_of(entry),
            gallery=album.gallery(entry.rows()),
        )
        for number, entry in enumerate(entries)
    ]
    comparison = compare(*entries) if len(entries) == 2 else None
    title = views[0].title if not several else " · ".join(dict.fromkeys(v.title for v in views))
    return _render(
        "report.html.j2", title=title, views=views, comparison=comparison, reach=_reach(comparison)
    )


def render_comparison(comparison: Comparison) -> str:
    """Return the page that compares two results and shows nothing else of them."""
    title = f"{comparison.a.backend} and {comparison.b.backend}, compared"
    return _render("compare.html.j2", title=title, comparison=comparison, reach=_reach(comparison))


def title_of(entry: Entry) -> str:
    """Return what was played on what: `mini-wam on libero`."""
    deciding = entry.setup.deciding
    backend = deciding.get("worker.meta.backend") or deciding.get("backend") or "a worker"
    return f"{backend} on {entry.first.platform}"


def _render(template: str, **context: object) -> str:
    style = files(__package__).joinpath(TEMPLATES).joinpath(STYLE).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = _environment().get_template(template)
    return page.render(
        style=Markup(style),  # noqa: S704 - ours
        style_sha256=digest,
        version=__version__,
        **context,
    )


def _environment() -> jinja2.Environment:
    try:
        import jinja2
    except ImportError as error:
        raise LaunchError(
            "a report needs jinja2, which is not installed",
            hint="pip install 'rpent-box[host]'",
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rpent_box.report", TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("percent", "interval", "points", "probability", "seconds", "number", "signed"):
        environment.filters[name] = getattr(words, name)
    environment.filters |= {
        "clock": words.clock,
        "breakable": words.breakable,
        "stage": _stage,
    }
    environment.globals |= {
        "charts": charts,
        "count": words.count,
        "grouped": words.grouped,
        "machines": _machines,
        "sittings": _sittings,
        "command_of": _command,
        "resume_command": _resume_command,
        "setup_groups": setup_groups,
        "differences_by_kind": _by_kind,
        "kind_in_words": KIND_IN_WORDS,
        "quantile": quantile,
        "limit_of": _limit_of,
        "waiting": WAITING,
        "without_model": WITHOUT_MODEL,
        "level": LEVEL,
    }
    return environment


def setup_groups(setup: Setup, kind: Kind) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return facts by the first word of their path, in order; those of one word come first."""
    groups: dict[str, list[tuple[str, str]]] = {"": []}
    for path, value in setup.of(kind).items():
        head, _, rest = path.partition(".")
        groups.setdefault(head if rest else "", []).append((rest or head, value))
    return [(name, facts) for name, facts in groups.items() if facts]


def _stage(name: str) -> str:
    return STAGES_IN_WORDS.get(name, name)


def _by_kind(found: Sequence[Difference]) -> list[tuple[Kind, list[Difference]]]:
    sorted_ = [(kind, [one for one in found if one.kind == kind]) for kind in KINDS]
    return [(kind, ones) for kind, ones in sorted_ if ones]


def _limit_of(suite: SuiteScore) -> int:
    return max((task.max_steps for task in suite.tasks), default=1)


def _sittings(folder: Folder) -> tuple[Session, ...]:
    manifest = folder.manifest
    return manifest.sessions if isinstance(manifest, EvalManifest) else ()


def _machines(folder: Folder) -> list[tuple[str, HostFacts]]:
    """Return the machines that played, each once."""
    manifest = folder.manifest
    if not isinstance(manifest, EvalManifest):
        return [("this machine", manifest.host)]
    places = [place for session in manifest.sessions for place in session.places]
    found = {
        (place.name, msgspec.json.encode(place.host)): (place.name or "this machine", place.host)
        for place in places
    }
    return list(found.values())


def _command(words_: Sequence[str]) -> str:
    shown = hide_secrets(list(words_))
    return " ".join(map(str, shown)) if isinstance(shown, list) else ""


def _resume_command(folder: Folder) -> str:
    """Return what goes on with an evaluation, as it may be pasted: its name is another's text."""
    name = os.fsencode(folder.path.name).decode(errors="replace")
    return f"rpent-box eval --resume {shlex.quote(name)}"


def _reach(comparison: Comparison | None) -> float:
    """Return how far a chart of differences reaches: the widest interval, in tenths."""
    if comparison is None:
        return 1.0
    bounds = [abs(end) for one in (comparison.total, *comparison.tasks) for end in one.interval]
    return min(1.0, -(-max(bounds) * 10 // 1) / 10)
