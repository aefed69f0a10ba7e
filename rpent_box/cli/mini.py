# SPDX-License-Identifier: Apache-2.0
"""`rpent-box mini`: make the built-in model from nothing, stage by stage, and score it."""

from __future__ import annotations

import os
import sys

import typer
from msgspec import Struct

from rpent_box.cli import eval_words, flags, mini_flags
from rpent_box.cli.asked import command_given
from rpent_box.cli.border import border, print_json
from rpent_box.cli.mini_all import all_
from rpent_box.cli.mini_card import card
from rpent_box.cli.mini_evaluate import evaluate
from rpent_box.cli.mini_pythons import simulator_python, training_python
from rpent_box.cli.mini_recipe import DEFAULTS
from rpent_box.cli.mini_stages import (
    absolute,
    export_stage,
    generate_stage,
    train_stage,
)
from rpent_box.cli.mini_work import STAGE_HOURS, Work
from rpent_box.cli.progress import speaker
from rpent_box.cli.tables import labelled, seconds
from rpent_box.evaluate.stages.record import StageFile, read_stage_file
from rpent_box.evaluate.stages.stage import Stage

MORE = "Options that are not listed here go to the generator itself, e.g. --noise 0.5."

app = typer.Typer(
    help="Make mini-wam, the built-in model, from nothing, and score it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _group() -> None:
    """Make mini-wam, the built-in model, from nothing, and score it."""


def generate(
    context: typer.Context,
    out: mini_flags.OutOfGenerate,
    lesson: mini_flags.Lessons = None,
    episodes: mini_flags.Demonstrations = DEFAULTS.episodes,
    student: mini_flags.Student = None,
    seed: mini_flags.Seed = DEFAULTS.seed,
    workers: mini_flags.Workers = None,
    simulator_python_: mini_flags.SimulatorPython = None,
    build: mini_flags.Build = False,
    timeout: mini_flags.Timeout = STAGE_HOURS,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Make demonstrations in fresh scenes: a LeRobot dataset of what the experts do and would do.

    The same command goes on where it was stopped.
    """
    with border(verbose=verbose, as_json=as_json):
        python = simulator_python(
            simulator_python_, build=build, say=speaker(quiet=quiet), environ=os.environ
        )
        stage = generate_stage(
            python,
            out=out,
            lessons=eval_words.names("--lesson", lesson) or DEFAULTS.lessons,
            episodes=episodes,
            seed=seed,
            workers=workers,
            student=student,
            more=context.args,
        )
        _work(quiet=quiet, timeout=timeout).run(stage)
        _show(stage, stage.folder, "data", as_json=as_json)


def train(
    data: mini_flags.Data,
    out: mini_flags.OutOfTrain,
    steps: mini_flags.Steps = DEFAULTS.steps,
    seed: mini_flags.Seed = DEFAULTS.training_seed,
    threads: mini_flags.Threads = DEFAULTS.threads,
    begin_with: mini_flags.BeginWith = None,
    frames: mini_flags.Frames = None,
    python: mini_flags.TrainingPython = None,
    timeout: mini_flags.Timeout = STAGE_HOURS,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Train the network on demonstrations.

    The same command goes on where it was stopped, and ends with the weights of an unbroken run.
    """
    with border(verbose=verbose, as_json=as_json):
        stage = train_stage(
            training_python(python, environ=os.environ),
            data=data,
            out=out,
            steps=steps,
            seed=seed,
            threads=threads,
            begin_with=begin_with,
            frames=frames,
        )
        _work(quiet=quiet, timeout=timeout).run(stage)
        _show(stage, stage.folder, "training", as_json=as_json)


def export(
    training: mini_flags.Training,
    out: mini_flags.OutOfExport = None,
    python: mini_flags.TrainingPython = None,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Make a checkpoint of a finished training: files that act without PyTorch."""
    with border(verbose=verbose, as_json=as_json):
        checkpoint = absolute(out or os.path.join(training, "checkpoint"))
        stage = export_stage(
            training_python(python, environ=os.environ), training=training, out=checkpoint
        )
        _work(quiet=quiet, timeout=STAGE_HOURS).run(stage)
        _show(stage, checkpoint, "checkpoint", as_json=as_json)


class Made(Struct, frozen=True, kw_only=True):
    """What `--json` prints of a stage."""

    out: str
    log: str
    record: StageFile


def _work(*, quiet: bool, timeout: float) -> Work:
    return Work.here(os.environ, quiet=quiet, hours=timeout, command=command_given())


def _show(stage: Stage, out: str, label: str, *, as_json: bool) -> None:
    record = read_stage_file(stage.record)
    if as_json:
        print_json(Made(out=out, log=str(stage.log), record=record))
        return
    text = labelled(label, out)
    sittings = len(record.sittings)
    went = seconds(record.wall_s) + (f" in {sittings} sittings" if sittings > 1 else "")
    sys.stdout.write(text + labelled("time", went))


app.command(context_settings=flags.PASS_THROUGH, epilog=MORE)(generate)
app.command()(train)
app.command()(export)
app.command()(evaluate)
app.command()(card)
app.command("all")(all_)
