# SPDX-License-Identifier: Apache-2.0
"""The options of `rpent-box eval` alone."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from rpent_box.cli.flags import OUTPUT, SCALE, SIMULATOR, WATCHING
from rpent_box.contracts.control_messages import Video as VideoName

Suite: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="Families of tasks, several by commas or by repeating it.",
        metavar="NAME[,NAME]",
        show_default="the platform's own choice",
        rich_help_panel=SIMULATOR,
    ),
]
Task: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="Only these tasks of each suite, by index or name; several like suites.",
        metavar="N|NAME[,…]",
        show_default="all",
        rich_help_panel=SIMULATOR,
    ),
]
Episodes: TypeAlias = Annotated[
    int,
    typer.Option(
        help="How many episodes of each task and seed, each from an initial state of its own.",
        metavar="N",
        min=1,
        rich_help_panel=SIMULATOR,
    ),
]
Seed: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="Seeds the simulator before every reset, and the model's noise. Where --scene-seed "
        "is the simulator's own seed, the noise alone. With several, each initial state is "
        "played once with each.",
        metavar="N[,N]",
        show_default="7",
        rich_help_panel=SIMULATOR,
    ),
]
Envs: TypeAlias = Annotated[
    str,
    typer.Option(
        "--envs",
        help="Simulators at once on each machine. auto: as many as cores and memory allow, then "
        "more, while they mostly wait for the model.",
        metavar="auto|N",
        rich_help_panel=SCALE,
    ),
]
Pin: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--pin/--no-pin",
        help="Keep each simulator on cores of its own, as long as there are enough.",
        rich_help_panel=SCALE,
    ),
]
Ray: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Play on the machines of a Ray cluster: of the one at this address; or (auto) of the "
        "one that RAY_ADDRESS names, else of one that is begun here. none, to go on without.",
        metavar="auto|HOST:PORT|none",
        show_default="on this machine",
        rich_help_panel=SCALE,
    ),
]
RayNodes: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="How many boxes, each with a worker (on one GPU, if it needs one) and simulators, to "
        "spread over as many machines.",
        metavar="N",
        min=1,
        show_default="one for each machine that has room",
        rich_help_panel=SCALE,
    ),
]
Resume: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--resume",
        help="Go on with an evaluation, by its folder or its name under --output; without a "
        "word, or with latest, the newest one there. What it plays, and with what, comes from "
        "its folder.",
        metavar="[RUN]",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Video: TypeAlias = Annotated[
    VideoName,
    typer.Option(
        help="Which episodes to write as episode.mp4.",
        metavar="all|failures|none",
        rich_help_panel=OUTPUT,
    ),
]
Report: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--report/--no-report",
        help="Write report.html into the evaluation's folder at the end.",
        rich_help_panel=OUTPUT,
    ),
]
Dashboard: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--dashboard",
        help="Serve a page that shows how it goes, on this machine alone; its address is printed.",
        rich_help_panel=WATCHING,
    ),
]
DashboardPort: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="Port of that page; turns it on.",
        metavar="PORT",
        min=0,
        max=65535,
        show_default="any free one",
        rich_help_panel=WATCHING,
    ),
]
