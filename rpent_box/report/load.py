# SPDX-License-Identifier: Apache-2.0
"""Reads the folders of runs and evaluations, finished or not, and tells which belong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from rpent_box.errors import BadOption, OutputError
from rpent_box.evaluate.scale.lock import LOCK_FILE
from rpent_box.evaluate.scale.manifest import (
    EVAL_FILE,
    EvalManifest,
    FailedAttempt,
    read_eval_manifest,
)
from rpent_box.evaluate.scale.outcomes import read_failed
from rpent_box.evaluate.scale.plan import JobKey, TaskKey, key_of
from rpent_box.report.setup import Setup, setup_of
from rpent_box.sim.manifest import MANIFEST_FILE, RunManifest, read_manifest
from rpent_box.sim.planning import MOST_EPISODES
from rpent_box.sim.results import RESULTS_FILE, EpisodeRow, read_results
from rpent_box.transport.lease import owner_is_gone
from rpent_box.version import __version__

SHOWN = 3
"""Folders that a hint names at most."""

Kind: TypeAlias = Literal["run", "evaluation"]


class Asked(Struct, frozen=True, kw_only=True):
    """An episode that was asked for."""

    episode: int
    key: JobKey
    max_steps: int


class Folder(Struct, frozen=True, kw_only=True):
    """The folder of one run or evaluation, as it was read."""

    path: Path
    kind: Kind
    manifest: RunManifest | EvalManifest
    asked: tuple[Asked, ...]
    """In order; no two with the same key."""
    task_names: Mapping[TaskKey, str]
    rows: tuple[EpisodeRow, ...]
    """By episode; no two with the same key."""
    failed: tuple[FailedAttempt, ...]
    """Attempts that ended in an error, in order."""
    setup: Setup
    goes_on: bool = False
    """Another process on this machine is writing there."""

    @property
    def name(self) -> str:
        return self.manifest.run

    @property
    def platform(self) -> str:
        return self.manifest.plan.platform


class Entry(Struct, frozen=True, kw_only=True):
    """Folders played with the same set-up and step limits that share no episode: one result."""

    folders: tuple[Folder, ...]

    @property
    def first(self) -> Folder:
        return self.folders[0]

    @property
    def setup(self) -> Setup:
        return self.first.setup

    @property
    def keys(self) -> set[JobKey]:
        """Of the episodes that were played."""
        return {key_of(row) for folder in self.folders for row in folder.rows}

    def rows(self) -> list[tuple[Folder, EpisodeRow]]:
        """Return every episode that was played, with the folder that it lies in."""
        return [(folder, row) for folder in self.folders for row in folder.rows]


def load_folder(path: str | Path) -> Folder:
    """Read one folder. Raises `BadOption` for another kind of folder, `OutputError` for its files.

    Without `results.jsonl` nothing was played yet.
    """
    folder = Path(path).expanduser().absolute()
    if (folder / EVAL_FILE).is_file():
        return _load_evaluation(folder)
    if (folder / MANIFEST_FILE).is_file():
        return _load_run(folder)
    raise BadOption(_not_a_run(folder), hint=_runs_below(folder))


def load_entries(paths: Sequence[str | Path]) -> list[Entry]:
    """Read folders and put together what is one result; in the order in which they are given.

    Folders with an equal set-up and equal step limits are parts of one entry as long as no episode
    was asked for in two of them; everything else is an entry of its own. Raises `BadOption` for
    folders of several platforms, or one that is given twice, and whatever `load_folder` raises.
    """
    folders = [load_folder(path) for path in paths]
    _require_each_once(folders)
    _require_one_platform(folders)
    entries: list[list[Folder]] = []
    for folder in folders:
        for entry in entries:
            if _belongs(folder, entry):
                entry.append(folder)
                break
        else:
            entries.append([folder])
    return [Entry(folders=tuple(entry)) for entry in entries]


def load_pair(a: str | Path, b: str | Path) -> tuple[Entry, Entry]:
    """Read two folders that are to be compared, each for itself. Raises as `load_entries` does."""
    folders = [load_folder(path) for path in (a, b)]
    _require_each_once(folders)
    _require_one_platform(folders)
    return Entry(folders=(folders[0],)), Entry(folders=(folders[1],))


def _belongs(folder: Folder, entry: Sequence[Folder]) -> bool:
    if folder.setup.deciding != entry[0].setup.deciding:
        return False
    # What was asked for counts too: two that were to play the same are two attempts at it.
    taken = {asked.key for one in entry for asked in one.asked}
    if taken & {asked.key for asked in folder.asked}:
        return False
    return all(_have_equal_limits(folder, one) for one in entry)


def _have_equal_limits(a: Folder, b: Folder) -> bool:
    """Tell whether no task had another step limit, as far as that is known: a run notes its own."""
    if isinstance(a.manifest, EvalManifest) and isinstance(b.manifest, EvalManifest):
        return a.manifest.config.max_steps == b.manifest.config.max_steps
    ours, theirs = _limits(a), _limits(b)
    return all(ours[key] == theirs[key] for key in ours.keys() & theirs.keys())


def _limits(folder: Folder) -> dict[TaskKey, int]:
    return {TaskKey(one.key.suite, one.key.task): one.max_steps for one in folder.asked}


def _load_run(folder: Path) -> Folder:
    manifest = read_manifest(folder)
    plan = manifest.plan
    _require_few(folder, plan.episodes)
    asked = [
        Asked(
            episode=episode,
            key=JobKey(scene.suite, scene.task, scene.init_state, scene.seed),
            max_steps=plan.max_steps,
        )
        for episode, scene in enumerate(plan.scenes())
    ]
    return Folder(
        path=folder,
        kind="run",
        manifest=manifest,
        asked=tuple(asked),
        task_names={TaskKey(plan.suite, plan.task): plan.task_name},
        rows=_rows(folder, asked, manifest.host.rpent_box),
        failed=(),
        setup=setup_of(manifest),
    )


def _load_evaluation(folder: Path) -> Folder:
    manifest = read_eval_manifest(folder)
    plan = manifest.plan
    _require_few(folder, sum(task.episodes for task in plan.tasks) * len(plan.seeds))
    asked = [
        Asked(episode=job.episode, key=job.key, max_steps=job.max_steps) for job in plan.jobs()
    ]
    writers = {place.host.rpent_box for one in manifest.sessions for place in one.places}
    return Folder(
        path=folder,
        kind="evaluation",
        manifest=manifest,
        asked=tuple(asked),
        task_names={TaskKey(one.suite, one.task): one.name for one in plan.tasks},
        rows=_rows(folder, asked, ", ".join(sorted(writers))),
        failed=tuple(read_failed(folder)),
        setup=setup_of(manifest),
        goes_on=not owner_is_gone(folder / LOCK_FILE),
    )


def _require_few(folder: Path, episodes: int) -> None:
    if episodes > MOST_EPISODES:
        raise OutputError(f"{folder} asks for {episodes} episodes; at most {MOST_EPISODES} can be")


def _rows(folder: Path, asked: Sequence[Asked], writer: str) -> tuple[EpisodeRow, ...]:
    """Return the rows by episode. Raises `OutputError` for those that cannot be counted."""
    path = folder / RESULTS_FILE
    if not path.exists():
        return ()
    try:
        rows = read_results(folder)
    except OutputError as error:
        if writer and writer != __version__:
            error.hint = f"rpent-box {writer} wrote it and this is {__version__}: read it there."
        raise
    _require_each_key_once(path, rows)
    _require_asked(path, rows, asked)
    return tuple(sorted(rows, key=lambda row: row.episode))


def _require_each_key_once(path: Path, rows: Sequence[EpisodeRow]) -> None:
    for key, times in Counter(key_of(row) for row in rows).items():
        if times > 1:
            raise OutputError(
                f"{path} holds {in_words(key)} {times} times; wanted each episode once",
                hint="Remove the lines that are not to be counted.",
            )


def _require_asked(path: Path, rows: Sequence[EpisodeRow], asked: Sequence[Asked]) -> None:
    wanted = {one.key: one.episode for one in asked}
    for row in rows:
        if wanted.get(key_of(row)) != row.episode:
            raise OutputError(
                f"{path} holds {in_words(key_of(row))} as episode {row.episode}, which the "
                "manifest beside it does not ask for",
                hint="The two files belong to different runs, or one of them was changed.",
            )


def in_words(key: JobKey) -> str:
    """Return which episode it is: `libero_spatial 3, init state 7, seed 7`."""
    return f"{key.suite} {key.task}, init state {key.init_state}, seed {key.seed}"


def _require_each_once(folders: Sequence[Folder]) -> None:
    for path, times in Counter(folder.path.resolve() for folder in folders).items():
        if times > 1:
            raise BadOption(f"{path} is given {times} times", hint="Name each folder once.")


def _require_one_platform(folders: Sequence[Folder]) -> None:
    names = dict.fromkeys(folder.platform for folder in folders)
    if len(names) > 1:
        raise BadOption(
            f"these are of {', '.join(names)}; wanted folders of one platform",
            hint="Make a report for each platform.",
        )


def _not_a_run(folder: Path) -> str:
    if not folder.exists():
        return f"there is no {folder}"
    if not folder.is_dir():
        return f"{folder} is a file; wanted the folder of a run or an evaluation"
    return f"{folder} has neither {MANIFEST_FILE} nor {EVAL_FILE}: nothing was played there"


def _runs_below(folder: Path) -> str:
    """Return a hint that names the latest runs in `folder`, or says where they are made."""
    found = sorted(
        path.parent.name
        for name in (MANIFEST_FILE, EVAL_FILE)
        for path in (folder.glob(f"*/{name}") if folder.is_dir() else ())
    )
    if found:
        return f"Name one of the folders in it: {', '.join(found[: -1 - SHOWN : -1])}"
    return "Runs lie in runs/, or where --output put them."
