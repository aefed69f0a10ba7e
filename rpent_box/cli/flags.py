# SPDX-License-Identifier: Apache-2.0
"""The options that several commands share, with RPent's spellings as second names."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from rpent_box.evaluate.config import LauncherName
from rpent_box.worker.backend import BackendSpec
from rpent_box.worker.backend import Device as DeviceName

WORKER = "Worker"
SIMULATOR = "Simulator"
PROGRAMS = "How programs run"
SCALE = "How much at once"
WATCHING = "Watching it"
OUTPUT = "Output"

DEFAULT_BACKEND = "mini-wam"
DEFAULT_PLATFORM = "libero"

PASS_THROUGH = {"ignore_unknown_options": True, "allow_extra_args": True}
"""Click settings of a command whose unknown options belong to its backend."""

Platform: TypeAlias = Annotated[
    str,
    typer.Option(
        "--platform",
        help="The simulator to play on.",
        metavar="NAME",
        rich_help_panel=SIMULATOR,
    ),
]
Checkpoint: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        help="The model's weights, a file or folder. Not with --endpoint.",
        metavar="PATH",
        show_default="the backend's own weights",
        rich_help_panel=WORKER,
    ),
]
Launcher: TypeAlias = Annotated[
    LauncherName,
    typer.Option(
        help="Containers (docker), local environments (process), or whichever works (auto).",
        metavar="auto|docker|process",
        rich_help_panel=PROGRAMS,
    ),
]
Python: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--python",
        help="Interpreter of the worker, for the process launcher.",
        metavar="PATH",
        show_default="the backend's environment",
        rich_help_panel=WORKER,
    ),
]
Root: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--root",
        help="Working directory of the worker, for the process launcher.",
        metavar="PATH",
        show_default="a folder of its own",
        rich_help_panel=WORKER,
    ),
]
Device: TypeAlias = Annotated[
    DeviceName | None,
    typer.Option(
        "--device",
        help="Where the model computes; cpu takes a large model's CPU variant, if it has one.",
        metavar="cpu|cuda",
        show_default="cuda if the model needs a GPU",
        rich_help_panel=WORKER,
    ),
]
CudaDevice: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cuda-device",
        help="GPU of the worker, by index or UUID.",
        metavar="GPU",
        show_default="none, or all that the model needs",
        rich_help_panel=WORKER,
    ),
]
Threads: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="CPU threads of the worker.",
        metavar="N",
        min=1,
        show_default="1 beside a simulator, every core for serve",
        rich_help_panel=WORKER,
    ),
]
PredictFuture: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--predict-future",
        help="Ask a world action model for the future frames and value too.",
        rich_help_panel=WORKER,
    ),
]
BackendOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="An option of the backend's own; may be repeated. Unknown options, and words "
        "after --, go to the backend too.",
        metavar="KEY=VALUE",
        show_default=False,
        rich_help_panel=WORKER,
    ),
]
StartTimeout: TypeAlias = Annotated[
    float,
    typer.Option(
        help="Longest wait for a program to be ready.",
        metavar="SECONDS",
        min=1,
        rich_help_panel=PROGRAMS,
    ),
]
Build: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--build",
        help="Prepare missing images or environments first.",
        rich_help_panel=PROGRAMS,
    ),
]
MaxBatch: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="Most observations that the worker puts into one inference.",
        metavar="N",
        min=1,
        show_default="as many as its model takes",
        rich_help_panel=SCALE,
    ),
]
MaxWaitMs: TypeAlias = Annotated[
    str,
    typer.Option(
        help="How long a batch waits for company. auto: tuned by the worker as it runs.",
        metavar="auto|MS",
        rich_help_panel=SCALE,
    ),
]
Metrics: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Serve figures for Prometheus, on this machine alone unless a host is given.",
        metavar="[HOST:]PORT",
        show_default="none",
        rich_help_panel=WATCHING,
    ),
]
AsJson: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON object on stdout and nothing else there.",
        rich_help_panel=OUTPUT,
    ),
]
Verbose: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Show tracebacks and log lines with errors.",
        rich_help_panel=OUTPUT,
    ),
]
Quiet: TypeAlias = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Show no progress.", rich_help_panel=OUTPUT),
]
Help: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--help",
        "-h",
        help="Show this, and the options of BACKEND.",
        rich_help_panel=OUTPUT,
    ),
]
Output: TypeAlias = Annotated[
    str,
    typer.Option(
        "--output",
        "--output-dir",
        "-o",
        help="Folder in which a folder for this command is made.",
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
    ),
]


def default_platform_of(spec: BackendSpec) -> str:
    """Return the platform that a command means where none is named."""
    return DEFAULT_PLATFORM if DEFAULT_PLATFORM in spec.platforms else spec.platforms[0]
