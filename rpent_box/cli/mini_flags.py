# SPDX-License-Identifier: Apache-2.0
"""The options of `rpent-box mini`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from rpent_box.cli.flags import OUTPUT, PROGRAMS, SCALE, SIMULATOR
from rpent_box.contracts.control_messages import Video as VideoName

WHAT = "What is made"
CONTROLS = "Controls"

Data: TypeAlias = Annotated[
    list[str],
    typer.Argument(help="Folders of demonstrations.", metavar="DATA...", show_default=False),
]
Training: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="The folder that a training was made in.", metavar="TRAINING", show_default=False
    ),
]
OutOfGenerate: TypeAlias = Annotated[
    str,
    typer.Option(
        "--out",
        "-o",
        help="Folder of the demonstrations. What is there already is kept, and not made again.",
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
    ),
]
OutOfTrain: TypeAlias = Annotated[
    str,
    typer.Option(
        "--out",
        "-o",
        help="Folder of the network. A training that was stopped there goes on.",
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
    ),
]
OutOfExport: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        help="Folder of the checkpoint.",
        metavar="FOLDER",
        show_default="TRAINING/checkpoint",
        rich_help_panel=OUTPUT,
    ),
]
OutOfEvaluate: TypeAlias = Annotated[
    str,
    typer.Option(
        "--out",
        "-o",
        help="Folder of the scores, for this checkpoint alone. What was played there is not "
        "played again.",
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
    ),
]
OutOfAll: TypeAlias = Annotated[
    str,
    typer.Option(
        "--out",
        "-o",
        help="Folder of everything. What was made there is not made again.",
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
    ),
]
Lessons: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--lesson",
        help="What to teach, several by commas or by repeating it: a suite, for all of its "
        "lessons, or one of them by its name.",
        metavar="NAME[,NAME]",
        show_default="the three suites that there are lessons for",
        rich_help_panel=WHAT,
    ),
]
ScoredSuites: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--suite",
        help="Families of tasks to score it on, several by commas or by repeating it.",
        metavar="NAME[,NAME]",
        show_default="the three suites that there are lessons for",
        rich_help_panel=SIMULATOR,
    ),
]
Demonstrations: TypeAlias = Annotated[
    int,
    typer.Option(
        "--episodes",
        help="How many demonstrations of each lesson; half as many where it teaches another "
        "task's sentence in the same scene.",
        metavar="N",
        min=1,
        rich_help_panel=WHAT,
    ),
]
Seed: TypeAlias = Annotated[
    int,
    typer.Option(help="What all chance follows from.", metavar="N", min=0, rich_help_panel=WHAT),
]
SeedOfRounds: TypeAlias = Annotated[
    int,
    typer.Option(
        "--seed",
        help="What all chance in the demonstrations follows from; the second round has the next "
        "number.",
        metavar="N",
        min=0,
        rich_help_panel=WHAT,
    ),
]
TrainingSeed: TypeAlias = Annotated[
    int,
    typer.Option(
        help="What all chance in the two trainings follows from.",
        metavar="N",
        min=0,
        rich_help_panel=WHAT,
    ),
]
Workers: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="Simulators at once. It changes nothing but the time.",
        metavar="N",
        min=1,
        show_default="one for each core",
        rich_help_panel=SCALE,
    ),
]
Threads: TypeAlias = Annotated[
    int,
    typer.Option(
        help="CPU threads of a training. Another number rounds otherwise.",
        metavar="N",
        min=1,
        rich_help_panel=WHAT,
    ),
]
Student: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--student",
        help="A checkpoint that acts in most episodes, while the expert says what it would have "
        "done.",
        metavar="CHECKPOINT",
        show_default="none: the expert acts, and is disturbed",
        rich_help_panel=WHAT,
    ),
]
Steps: TypeAlias = Annotated[
    int,
    typer.Option(
        help="Training steps.",
        metavar="N",
        min=1,
        rich_help_panel=WHAT,
    ),
]
BeginWith: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--begin-with",
        help="A training that has ended: begin with its weights.",
        metavar="TRAINING",
        show_default="random weights",
        rich_help_panel=WHAT,
    ),
]
Frames: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--frames",
        help="Folder for decoded frames, 98 KB a row. Several trainings may share one.",
        metavar="FOLDER",
        show_default="that of --out",
        rich_help_panel=OUTPUT,
    ),
]
BeginWithStudent: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--begin-with-student/--begin-anew",
        help="Whether the last training begins with the student's weights, or with random ones.",
        rich_help_panel=WHAT,
    ),
]
StudentEpisodes: TypeAlias = Annotated[
    int,
    typer.Option(
        help="The same for the second round, in which the student acts.",
        metavar="N",
        min=1,
        rich_help_panel=WHAT,
    ),
]
StudentSteps: TypeAlias = Annotated[
    int,
    typer.Option(
        help="Training steps of the student.",
        metavar="N",
        min=1,
        rich_help_panel=WHAT,
    ),
]
Score: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--score/--no-score",
        help="Score the checkpoint at the end, as rpent-box mini evaluate does.",
        rich_help_panel=WHAT,
    ),
]
SimulatorPython: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--simulator-python",
        help="A Python with the simulator, and what teaching and the model need.",
        metavar="PATH",
        show_default="the platform's environment",
        rich_help_panel=PROGRAMS,
    ),
]
Build: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--build",
        help="Prepare missing images or environments first, and what teaching needs in them.",
        rich_help_panel=PROGRAMS,
    ),
]
TrainingPython: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--python",
        help="A Python with PyTorch and what else training needs.",
        metavar="PATH",
        show_default="the one that runs rpent-box",
        rich_help_panel=PROGRAMS,
    ),
]
Timeout: TypeAlias = Annotated[
    float,
    typer.Option(
        help="Longest time for a stage to come to its end.",
        metavar="HOURS",
        min=0.001,
        rich_help_panel=PROGRAMS,
    ),
]
Checkpoint: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        help="The folder that was exported.",
        metavar="FOLDER",
        show_default="the built-in weights",
        rich_help_panel=WHAT,
    ),
]
Episodes: TypeAlias = Annotated[
    int,
    typer.Option(
        help="How many episodes of each task, each from a recorded initial state of its own.",
        metavar="N",
        min=1,
        rich_help_panel=SIMULATOR,
    ),
]
EvalSeed: TypeAlias = Annotated[
    int,
    typer.Option(
        "--seed",
        help="Seeds the simulator before every reset.",
        metavar="N",
        rich_help_panel=SIMULATOR,
    ),
]
Video: TypeAlias = Annotated[
    VideoName,
    typer.Option(
        help="Which episodes of the suites to write as episode.mp4; controls have none.",
        metavar="all|failures|none",
        rich_help_panel=OUTPUT,
    ),
]
Parts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--part",
        help="What to play, several by commas or by repeating it: the suites themselves; another "
        "task's sentence in the same scene (sentences); grey frames (grey); LIBERO-Pro's variants "
        "of a suite (pro).",
        metavar="suites|sentences|grey|pro[,…]",
        show_default="all of them",
        rich_help_panel=CONTROLS,
    ),
]
ControlSuite: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="The suite that controls and variants are of.",
        metavar="NAME",
        show_default="the first of --suite",
        rich_help_panel=CONTROLS,
    ),
]
ControlEpisodes: TypeAlias = Annotated[
    int,
    typer.Option(
        help="How many episodes of each task for sentences and grey frames.",
        metavar="N",
        min=1,
        rich_help_panel=CONTROLS,
    ),
]
ProEpisodes: TypeAlias = Annotated[
    int,
    typer.Option(
        help="How many episodes of each task of LIBERO-Pro.",
        metavar="N",
        min=1,
        rich_help_panel=CONTROLS,
    ),
]
