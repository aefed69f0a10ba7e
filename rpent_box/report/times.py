# SPDX-License-Identifier: Apache-2.0
"""Where the time went: of episodes, of simulators as a whole, and of workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from rpent_box.contracts.messages import Figures, Histogram
from rpent_box.evaluate.scale.manifest import EvalManifest, Place
from rpent_box.report.load import Entry, Folder
from rpent_box.sim.manifest import RunManifest
from rpent_box.sim.results import EpisodeRow

WAITING = ("transport", "queue", "encode", "infer", "decode")
"""Stages in which a simulator waits for its model; of a batch, each has the whole time."""
EPISODE_STAGES = ("resetting", "simulate", "render", *WAITING, "other", "video")
SIMULATOR_STAGES = (
    *("starting", "resetting", "simulate", "render", "predicting", "other", "video", "lost"),
    "idle",
)
"""`lost`: with attempts whose simulator hung or died."""
WITHOUT_MODEL = "predicting"
"""What a simulator does while its worker has something to do for it."""


class Times(Struct, frozen=True, kw_only=True):
    """In seconds. Simulators run side by side, so theirs add up to more than passed by."""

    stages_s: dict[str, float]
    """Of all finished episodes: `EPISODE_STAGES`, and what they do not name; without zeros."""
    simulators_s: dict[str, float]
    """Of all simulators, from their start to their end: `SIMULATOR_STAGES` and others; empty:
    not kept."""
    episodes: int
    wall_s: float | None
    """From each call to its end; None: not known, as of a run that was killed."""
    playing_s: float | None
    """The same, from each first episode's beginning."""
    episodes_per_minute: float | None


class WorkerTimes(Struct, frozen=True, kw_only=True):
    """What the workers of one machine did, over all sittings."""

    place: str
    """`""` for a single machine."""
    borrowed: bool
    """Then it counts what others asked of it meanwhile, too."""
    starts: int
    ready_s: float
    busy_s: float
    gathering_s: float
    idle_s: float
    busy_share: float | None
    """Of the time in which it was ready; None: it never was."""
    served: int
    refused: int
    batches: dict[int, int]
    """Observations in one inference → how often; rising."""
    mean_batch: float | None
    infer_s: Histogram | None
    queue_s: Histogram | None
    max_batch: int
    max_wait_ms: float
    """At its end."""
    tuned: bool
    meanwhile_s: dict[str, float]
    """What its simulators did while they did not wait for it, in seconds of all of them."""


def times_of(entry: Entry) -> Times:
    """Add up the times of every episode, simulator and sitting."""
    rows = [row for _, row in entry.rows()]
    walls = [wall for folder in entry.folders for wall in _sittings(folder)]
    known = all(wall is not None for wall in walls)
    wall_s = sum(wall for wall, _ in filter(None, walls)) if known and walls else None
    playing_s = sum(playing for _, playing in filter(None, walls)) if known and walls else None
    return Times(
        stages_s=_in_order(_stages(rows), EPISODE_STAGES),
        simulators_s=_in_order(
            _added(place.simulators_s for place in _places(entry)), SIMULATOR_STAGES
        ),
        episodes=len(rows),
        wall_s=wall_s,
        playing_s=playing_s,
        episodes_per_minute=60 * len(rows) / playing_s if rows and playing_s else None,
    )


def workers_of(entry: Entry) -> tuple[WorkerTimes, ...]:
    """Return what workers counted, by machine; nothing of those that were never asked."""
    by_name: dict[str, list[Place]] = {}
    for place in _places(entry):
        if place.worker is not None:
            by_name.setdefault(place.name, []).append(place)
    is_borrowed = entry.first.manifest.plan.endpoint is not None
    return tuple(_worker(name, places, is_borrowed=is_borrowed) for name, places in by_name.items())


def _worker(name: str, places: Sequence[Place], *, is_borrowed: bool) -> WorkerTimes:
    counted = [place.worker for place in places if place.worker is not None]
    ready_s, busy_s = sum(one.ready_s for one in counted), sum(one.busy_s for one in counted)
    batches = sum((Counter(one.batches) for one in counted), Counter[int]())
    inferences, last = batches.total(), counted[-1]
    meanwhile = _in_order(_added(place.simulators_s for place in places), SIMULATOR_STAGES)
    meanwhile.pop(WITHOUT_MODEL, None)
    return WorkerTimes(
        place=name,
        borrowed=is_borrowed,
        starts=sum(place.worker_starts for place in places),
        ready_s=ready_s,
        busy_s=busy_s,
        gathering_s=sum(one.gathering_s for one in counted),
        idle_s=sum(one.idle_s for one in counted),
        busy_share=busy_s / ready_s if ready_s > 0 else None,
        served=sum(one.served for one in counted),
        refused=sum(one.refused for one in counted),
        batches=dict(sorted(batches.items())),
        mean_batch=sum(size * n for size, n in batches.items()) / inferences
        if inferences
        else None,
        infer_s=_together(counted, "infer_s"),
        queue_s=_together(counted, "queue_s"),
        max_batch=last.max_batch,
        max_wait_ms=last.max_wait_ms,
        tuned=last.tuned,
        meanwhile_s=meanwhile,
    )


def quantile(histogram: Histogram, share: float) -> float | None:
    """Return a bound below which `share` of the values lie; None: they are above the last one.

    As exact as the bounds are: the true one lies between the bound before it and this one.
    """
    wanted, seen = share * sum(histogram.counts), 0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=False):
        seen += count
        if seen >= wanted:
            return bound
    return None


def _places(entry: Entry) -> list[Place]:
    return [
        place
        for folder in entry.folders
        if isinstance(folder.manifest, EvalManifest)
        for session in folder.manifest.sessions
        for place in session.places
    ]


def _sittings(folder: Folder) -> Iterator[tuple[float, float] | None]:
    """Yield, of each sitting, the seconds that it took and those of them from its first episode."""
    manifest = folder.manifest
    if isinstance(manifest, RunManifest):
        seconds = _between(manifest.started_at, manifest.finished_at)
        acting_s = sum(row.setup_s + row.wall_s + row.video_s for row in folder.rows)
        # A run has one simulator, which plays all the time once it does.
        yield None if seconds is None else (seconds, min(seconds, acting_s))
        return
    for session in manifest.sessions:
        playing_s = session.wall_s - session.start_s if session.start_s > 0 else 0.0
        yield session.wall_s, max(0.0, playing_s)


def _between(began: str, ended: str | None) -> float | None:
    if ended is None:
        return None
    try:
        return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    except ValueError:
        return None


def _stages(rows: Iterable[EpisodeRow]) -> dict[str, float]:
    return _added({"resetting": row.setup_s, **row.stages_s, "video": row.video_s} for row in rows)


def _added(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, seconds in part.items():
            total[name] = total.get(name, 0.0) + seconds
    return total


def _in_order(seconds: Mapping[str, float], order: Sequence[str]) -> dict[str, float]:
    """Return what is not zero: those of `order` as there, the others behind them by name."""
    names = [*order, *sorted(set(seconds) - set(order))]
    return {name: seconds[name] for name in names if seconds.get(name, 0.0) > 0}


def _together(counted: Sequence[Figures], field: str) -> Histogram | None:
    """Add up the histograms with the last one's bounds: another version may have others."""
    found = [one for one in (getattr(each, field) for each in counted) if one is not None]
    if not found:
        return None
    alike = [one for one in found if one.bounds == found[-1].bounds]
    return Histogram(
        bounds=found[-1].bounds,
        counts=tuple(map(sum, zip(*(one.counts for one in alike), strict=True))),
        total=sum(one.total for one in alike),
    )
