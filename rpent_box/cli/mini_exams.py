# SPDX-License-Identifier: Apache-2.0
"""What mini-wam is scored on: whole suites, LIBERO-Pro's variants of one, and controls."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rpent_box.cli.mini_sentences import Sentence
from rpent_box.errors import BadOption, OutputError, UsageError
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.summary import EvalSummary
from rpent_box.sim.manifest import as_json
from rpent_box.sim.results import now, write_atomically

Part: TypeAlias = Literal["suites", "sentences", "grey", "pro"]
PARTS: tuple[Part, ...] = get_args(Part)

BACKEND = "mini-wam"
PLATFORM = "libero"
PRO_PLATFORM = "libero-pro"
SUITES = ("libero_spatial", "libero_object", "libero_goal")
"""What there are lessons for."""
VARIANTS = ("lan", "swap", "object", "task")
"""LIBERO-Pro's, with files for every task of libero_spatial."""
BLIND = ("--see=grey",)

SCORES_FILE = "scores.json"
WEIGHTS = ("mini_wam*.onnx", "mini_wam.json")


class Exam(Struct, frozen=True, kw_only=True):
    """One evaluation, in a folder of its own."""

    name: str
    """Also its folder's."""
    part: Part
    config: EvalConfig


class ExamScore(Struct, frozen=True, kw_only=True):
    name: str
    part: Part
    summary: EvalSummary


class Scores(Struct, frozen=True, kw_only=True):
    """The contents of `scores.json`, and what `--json` prints."""

    checkpoint: dict[str, str]
    """File → SHA-256."""
    written_at: str
    """UTC, ISO 8601."""
    exams: tuple[ExamScore, ...] = ()
    sentences: tuple[Sentence, ...] = ()


class Marks(Struct, frozen=True, kw_only=True):
    """How much is played of each part, and of what."""

    parts: tuple[Part, ...]
    parts_are_named: bool = False
    """Else what the suite has nothing for is left out."""
    suites: tuple[str, ...]
    tasks: tuple[int | str, ...] = ()
    """Of each suite. Empty: all of them."""
    control_suite: str
    episodes: int
    control_episodes: int
    pro_episodes: int


def read_parts(names: Sequence[str]) -> tuple[Part, ...]:
    """Return the parts that are named, or all, in their own order. Raises `BadOption`."""
    for name in names:
        if name not in PARTS:
            raise BadOption(f"there is no part {name}", hint=f"There are: {', '.join(PARTS)}")
    return tuple(part for part in PARTS if not names or part in names)


def exams(marks: Marks, base: EvalConfig) -> Iterator[Exam]:
    """Yield the evaluations of `marks`; `base` says with what and how they are played.

    Only the suites themselves have videos: a control fails most of its episodes, and drawing one
    takes longer than playing it.
    """
    if "suites" in marks.parts:
        for suite in marks.suites:
            config = replace(base, platform=PLATFORM, suites=(suite,), episodes=marks.episodes)
            yield Exam(name=suite, part="suites", config=config)
    of_one = marks.control_suite
    if "grey" in marks.parts:
        config = replace(
            base,
            platform=PLATFORM,
            suites=(of_one,),
            episodes=marks.control_episodes,
            video="none",
            backend_arguments=(*base.backend_arguments, *BLIND),
        )
        yield Exam(name=f"{of_one}-grey", part="grey", config=config)
    if "pro" in marks.parts:
        for variant in VARIANTS:
            suite = f"{of_one}_{variant}"
            config = replace(
                base,
                platform=PRO_PLATFORM,
                suites=(suite,),
                episodes=marks.pro_episodes,
                video="none",
            )
            yield Exam(name=suite, part="pro", config=config)


def require_same_checkpoint(out: Path, hashes: dict[str, str]) -> None:
    """Refuse to put scores of one checkpoint beside those of another. Raises `UsageError`."""
    found = read_scores(out)
    if found is not None and found.checkpoint != hashes:
        names = sorted({*found.checkpoint, *hashes})
        changed = [name for name in names if found.checkpoint.get(name) != hashes.get(name)]
        raise UsageError(
            f"{out} holds scores of another checkpoint: {', '.join(changed)} differ",
            hint="Choose another folder: --out FOLDER",
        )


def read_scores(out: Path) -> Scores | None:
    """Return what was scored in `out` before; None where nothing was. Raises `OutputError`."""
    path = out / SCORES_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Scores)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OutputError(f"{path} does not hold scores: {error}") from error


def write_scores(out: Path, scores: Scores) -> Scores:
    """Write `scores.json`, with what is known from before and was not scored anew."""
    before = read_scores(out)
    if before is not None:
        known = {one.name: one for one in (*before.exams, *scores.exams)}
        pairs = {(one.suite, one.task, one.says): one for one in before.sentences}
        pairs |= {(one.suite, one.task, one.says): one for one in scores.sentences}
        scores = replace(scores, exams=tuple(known.values()), sentences=tuple(pairs.values()))
    scores = replace(scores, written_at=now())
    write_atomically(out / SCORES_FILE, as_json(scores))
    return scores


def hashes_of(checkpoint: str | None) -> dict[str, str]:
    """Return file → SHA-256 of a checkpoint's files; of the built-in weights for None."""
    if checkpoint is None:
        # Late: only then is it asked where its package lies.
        from rpent_box.backends import mini_wam

        folder = Path(mini_wam.__file__).parent / "weights"
    else:
        folder = Path(checkpoint).expanduser().absolute()
    try:
        files = sorted(path for pattern in WEIGHTS for path in folder.glob(pattern))
        hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    except OSError as error:
        raise OutputError(f"{folder} cannot be read: {error.strerror}") from error
    if not hashes:
        raise BadOption(
            f"{folder} holds no checkpoint",
            hint="Export one: rpent-box mini export TRAINING --out CHECKPOINT",
        )
    return hashes
