# SPDX-License-Identifier: Apache-2.0
"""`rpent-box mini evaluate`: the scores and controls that a model card is written from."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import typer
from msgspec import Struct
from msgspec.structs import replace

from rpent_box.cli import eval_flags, eval_words, flags, mini_flags
from rpent_box.cli.asked import command_given
from rpent_box.cli.border import NOT_COMPLETED, border, print_json
from rpent_box.cli.eval_progress import Showing
from rpent_box.cli.eval_watched import watched
from rpent_box.cli.mini_check import check_marks
from rpent_box.cli.mini_exams import (
    BACKEND,
    PLATFORM,
    SCORES_FILE,
    SUITES,
    Exam,
    ExamScore,
    Marks,
    Scores,
    exams,
    hashes_of,
    read_parts,
    require_same_checkpoint,
    write_scores,
)
from rpent_box.cli.mini_lessons import require_sentences
from rpent_box.cli.mini_pythons import simulator_python
from rpent_box.cli.mini_sentences import read_trials, sentences_folder, sentences_of
from rpent_box.cli.mini_stages import absolute, sentences_stage
from rpent_box.cli.mini_work import STAGE_HOURS, Work
from rpent_box.cli.progress import speaker, write_line
from rpent_box.cli.show_mini import render_scores
from rpent_box.cli.surroundings import cache_dir, runtime_dir
from rpent_box.contracts.control_messages import Video
from rpent_box.evaluate.config import LauncherName
from rpent_box.evaluate.scale.config import DEFAULT_SEED, EvalConfig
from rpent_box.evaluate.scale.summary import EvalSummary
from rpent_box.evaluate.stages.stage import Stage
from rpent_box.evaluate.stages.writer import only_writer
from rpent_box.report.write import write_report

EPISODES = 50
"""Recorded initial states of a task: all of them."""
CONTROL_EPISODES = 10
PRO_EPISODES = 10


def evaluate(
    out: mini_flags.OutOfEvaluate,
    checkpoint: mini_flags.Checkpoint = None,
    suite: mini_flags.ScoredSuites = None,
    task: eval_flags.Task = None,
    episodes: mini_flags.Episodes = EPISODES,
    seed: mini_flags.EvalSeed = DEFAULT_SEED,
    part: mini_flags.Parts = None,
    control_suite: mini_flags.ControlSuite = None,
    control_episodes: mini_flags.ControlEpisodes = CONTROL_EPISODES,
    pro_episodes: mini_flags.ProEpisodes = PRO_EPISODES,
    envs: eval_flags.Envs = eval_words.AUTO,
    launcher: flags.Launcher = "auto",
    simulator_python_: mini_flags.SimulatorPython = None,
    build: mini_flags.Build = False,
    video: mini_flags.Video = "failures",
    report: eval_flags.Report = True,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Score a checkpoint on whole suites, and try whether it sees and reads.

    Each suite is an evaluation as of rpent-box eval, in a folder of its own. The same command goes
    on where it was stopped.
    """
    with border(verbose=verbose, as_json=as_json):
        suites = eval_words.names("--suite", suite) or SUITES
        asked = Asked(
            out=Path(absolute(out)),
            checkpoint=None if checkpoint is None else absolute(checkpoint),
            marks=Marks(
                parts=read_parts(eval_words.names("--part", part)),
                parts_are_named=part is not None,
                suites=suites,
                tasks=eval_words.tasks(task),
                control_suite=control_suite or suites[0],
                episodes=episodes,
                control_episodes=control_episodes,
                pro_episodes=pro_episodes,
            ),
            seed=seed,
            envs=eval_words.envs(envs),
            launcher=launcher,
            simulator_python=simulator_python_,
            build=build,
            video=video,
            report=report,
            quiet=quiet,
        )
        # First: it knows best what a folder without weights lacks.
        require_same_checkpoint(asked.out, hashes_of(asked.checkpoint))
        scored = score(check(asked, os.environ), os.environ)
        if as_json:
            print_json(scored.scores)
        else:
            sys.stdout.write(render_scores(scored.scores, str(asked.out / SCORES_FILE)))
        if not scored.is_complete:
            raise typer.Exit(NOT_COMPLETED)


class Asked(Struct, frozen=True, kw_only=True):
    """What is to be scored, and how."""

    out: Path
    checkpoint: str | None
    """None: the built-in weights."""
    marks: Marks
    seed: int = DEFAULT_SEED
    envs: int | None = None
    launcher: LauncherName = "auto"
    simulator_python: str | None = None
    build: bool = False
    video: Video = "failures"
    report: bool = True
    quiet: bool = False


class Scored(Struct, frozen=True, kw_only=True):
    """What came of it."""

    scores: Scores
    """All that the folder holds, of earlier commands too."""
    is_complete: bool
    """Whether each exam that was asked for now has all its results."""


def check(asked: Asked, environ: Mapping[str, str]) -> Asked:
    """Return `asked` without what there is nothing to play of and nobody named.

    Nothing is played yet. Raises as `check_marks` does, and `LaunchError` for a Python without
    what it needs.
    """

    def require() -> None:
        python = _simulator_python(asked, environ)
        require_sentences(python, asked.marks.control_suite, asked.marks.tasks, environ)

    marks = check_marks(
        asked.marks,
        _config(asked, environ),
        asked.out,
        require_sentences=require,
        say=speaker(quiet=asked.quiet),
    )
    return replace(asked, marks=marks)


def score(asked: Asked, environ: Mapping[str, str]) -> Scored:
    """Play what is left of it, and write `scores.json` after each part. Raises `RpentBoxError`."""
    hashes = hashes_of(asked.checkpoint)
    with only_writer(asked.out):
        require_same_checkpoint(asked.out, hashes)
        scores = write_scores(asked.out, Scores(checkpoint=hashes, written_at=""))
        statuses = []
        for exam in exams(asked.marks, _config(asked, environ)):
            summary = _play(exam, asked)
            statuses.append(summary.status)
            one = ExamScore(name=exam.name, part=exam.part, summary=summary)
            scores = write_scores(asked.out, Scores(checkpoint=hashes, written_at="", exams=(one,)))
        if "sentences" in asked.marks.parts:
            found = sentences_of(read_trials(_try_sentences(asked, environ)))
            scores = write_scores(
                asked.out, Scores(checkpoint=hashes, written_at="", sentences=found)
            )
    return Scored(scores=scores, is_complete=all(one == "complete" for one in statuses))


def _play(exam: Exam, asked: Asked) -> EvalSummary:
    # Late: it reaches the Docker SDK, which `--help` should not wait for.
    from rpent_box.evaluate.scale.kept import play_kept

    if not asked.quiet:
        write_line(f"{exam.name}:")
    showing = Showing(quiet=asked.quiet, dashboard_port=None, metrics=None)
    folder = asked.out / exam.name
    summary = watched(showing, lambda watcher: play_kept(folder, exam.config, watcher))
    if asked.report:
        write_report([summary.run_dir])
    return summary


def _try_sentences(asked: Asked, environ: Mapping[str, str]) -> Path:
    """Play the attempts with another task's sentence; return their folder."""
    stage = sentences_asked(asked, python=_simulator_python(asked, environ))
    work = Work.here(environ, quiet=asked.quiet, hours=STAGE_HOURS, command=command_given())
    work.run(stage)
    return Path(stage.folder)


def sentences_asked(asked: Asked, *, python: str) -> Stage:
    """Return what tries other tasks' sentences."""
    return sentences_stage(
        python,
        folder=str(sentences_folder(asked.out, asked.marks.control_suite)),
        checkpoint=asked.checkpoint,
        suite=asked.marks.control_suite,
        tasks=asked.marks.tasks,
        episodes=asked.marks.control_episodes,
        seed=asked.seed,
        workers=asked.envs,
    )


def _config(asked: Asked, environ: Mapping[str, str]) -> EvalConfig:
    return EvalConfig(
        backend=BACKEND,
        platform=PLATFORM,
        checkpoint=asked.checkpoint,
        launcher=asked.launcher,
        platform_python=asked.simulator_python,
        tasks=asked.marks.tasks,
        seeds=(asked.seed,),
        envs=asked.envs,
        video=asked.video,
        build=asked.build,
        build_environ=dict(environ) if asked.build else None,
        runtime_dir=runtime_dir(environ),
        cache_dir=cache_dir(environ),
        command=command_given(),
    )


def _simulator_python(asked: Asked, environ: Mapping[str, str]) -> str:
    say = speaker(quiet=asked.quiet)
    return simulator_python(asked.simulator_python, build=asked.build, say=say, environ=environ)
