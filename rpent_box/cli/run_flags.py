# SPDX-License-Identifier: Apache-2.0
"""The options of `rpent-box run` alone."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from rpent_box.cli.flags import OUTPUT, SIMULATOR
from rpent_box.contracts.control_messages import Video as VideoName

Suite: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Family of tasks.",
        metavar="NAME",
        show_default="the platform's own choice",
        rich_help_panel=SIMULATOR,
    ),
]
Task: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Task within the suite: its index, counted from 0, or its name.",
        metavar="N|NAME",
        rich_help_panel=SIMULATOR,
    ),
]
Episodes: TypeAlias = Annotated[
    int,
    typer.Option(
        help="How many episodes, each from an initial state of its own.",
        metavar="N",
        min=1,
        rich_help_panel=SIMULATOR,
    ),
]
Seed: TypeAlias = Annotated[
    int,
    typer.Option(
        help="Seeds the simulator before every reset, and the model's noise. Where --scene-seed "
        "is the simulator's own seed, the noise alone.",
        metavar="N",
        min=0,
        rich_help_panel=SIMULATOR,
    ),
]
Video: TypeAlias = Annotated[
    VideoName | None,
    typer.Option(
        help="Which episodes to write as episode.mp4.",
        metavar="all|failures|none",
        show_default="all for one episode, else none",
        rich_help_panel=OUTPUT,
    ),
]
