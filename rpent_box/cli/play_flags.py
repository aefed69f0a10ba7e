# SPDX-License-Identifier: Apache-2.0
"""The options that are the same for `rpent-box run` and `rpent-box eval`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from rpent_box.cli.flags import DEFAULT_BACKEND, OUTPUT, PROGRAMS, SIMULATOR, WORKER

Backend: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--backend",
        help="The model to run.",
        metavar="NAME",
        show_default=f"{DEFAULT_BACKEND}, or whatever serves at --endpoint",
        rich_help_panel=WORKER,
    ),
]
Endpoint: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        help="Use a worker that runs already, e.g. tcp://host:port; it is never stopped.",
        metavar="URL",
        show_default=False,
        rich_help_panel=WORKER,
    ),
]
ExecuteSteps: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="Steps of each action chunk to execute before asking again.",
        metavar="N",
        min=1,
        show_default="all that the model returns",
        rich_help_panel=WORKER,
    ),
]
PredictionTimeout: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Longest wait for one prediction.",
        metavar="SECONDS",
        min=0.001,
        show_default="the model's own, else 300",
        rich_help_panel=WORKER,
    ),
]
FirstInitState: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--first-init-state",
        "--scene-seed",
        help="Initial state of the first episode; each further episode takes the next. Where a "
        "suite has no recorded states, it is the number that fixes the scene, such as the "
        "simulator's own scene seed.",
        metavar="N",
        min=0,
        show_default="the suite's first",
        rich_help_panel=SIMULATOR,
    ),
]
MaxSteps: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="Step limit of an episode.",
        metavar="N",
        min=1,
        show_default="the task's or the suite's",
        rich_help_panel=SIMULATOR,
    ),
]
PlatformPython: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Interpreter of the simulator, for the process launcher.",
        metavar="PATH",
        show_default="the platform's environment",
        rich_help_panel=SIMULATOR,
    ),
]
PlatformCudaDevice: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="GPU that the simulator may draw on, by index or UUID.",
        metavar="GPU",
        show_default="none in a container, all for a process",
        rich_help_panel=SIMULATOR,
    ),
]
PlatformOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="An option of the platform's own; may be repeated. --NAME-KEY VALUE, with the "
        "platform's NAME, is the same.",
        metavar="KEY=VALUE",
        show_default=False,
        rich_help_panel=SIMULATOR,
    ),
]
ShowPredictions: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--show-predictions",
        help="Draw into the videos what the model expected to see after each chunk, what was seen "
        "then, and its value. For models that return them, some only with --predict-future.",
        rich_help_panel=OUTPUT,
    ),
]
Help: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--help",
        "-h",
        help="Show this, the options of the platform, and those of the backend if one is named.",
        rich_help_panel=OUTPUT,
    ),
]
EpisodeTimeout: TypeAlias = Annotated[
    float,
    typer.Option(
        help="Longest duration of one attempt at an episode.",
        metavar="SECONDS",
        min=1,
        rich_help_panel=PROGRAMS,
    ),
]
StallTimeout: TypeAlias = Annotated[
    float,
    typer.Option(
        help="Silence after which a simulator counts as hung and is replaced.",
        metavar="SECONDS",
        min=1,
        rich_help_panel=PROGRAMS,
    ),
]
