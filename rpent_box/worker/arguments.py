# SPDX-License-Identifier: Apache-2.0
"""The command line of a worker: its own options, and those of the one backend it serves."""

from __future__ import annotations

import argparse
import math
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.errors import BadOption, UsageError
from rpent_box.options import OptionParser, add_options, options_from
from rpent_box.plugins import backend_names, find_backend
from rpent_box.transport.paths import BoxPaths, check_endpoint, runtime_dir_of_endpoint
from rpent_box.worker.backend import BackendSpec, Device
from rpent_box.worker.config import (
    DEFAULT_DRAIN_S,
    DEFAULT_SESSION_IDLE_S,
    ServiceConfig,
)
from rpent_box.worker.needs import needs_of, require_platform

PROGRAM = "python -m rpent_box.worker.serve"


class WorkerArguments(Struct, frozen=True, kw_only=True):
    """Everything the command line said."""

    spec: BackendSpec
    options: Struct
    """An instance of `spec.options`."""
    endpoint: str
    platform: str
    checkpoint: str | None
    device: Device
    threads: int
    box: BoxPaths | None
    """The box that grants clients' rings, as this process sees it; None: tensors as raw frames."""
    verbose: bool
    service: ServiceConfig


def parse_arguments(words: Sequence[str]) -> WorkerArguments | str:
    """Read the command line; returns the text to show when it asks for help.

    Raises `UsageError`: no such backend, an unknown option, a value that cannot be used.
    """
    spec = _backend(words)
    if spec is None:
        return _parser(None).format_help()
    parser = _parser(spec)
    if "--help" in words or "-h" in words:
        return parser.format_help()
    values = parser.parse_args(list(words))
    require_platform(spec, values.platform)
    options = options_from(spec.options, vars(values))
    needs = needs_of(spec, options, checkpoint=values.checkpoint, device=values.device)
    return WorkerArguments(
        spec=spec,
        options=options,
        endpoint=check_endpoint(values.endpoint),
        platform=values.platform,
        checkpoint=values.checkpoint,
        device=needs.device,
        threads=values.threads,
        box=_paths(values.box, values.view, values.endpoint),
        verbose=values.verbose,
        service=ServiceConfig(
            max_batch=values.max_batch,
            max_wait_ms=values.max_wait_ms,
            session_idle_s=values.session_idle_s,
            drain_s=values.drain_s,
            lease=values.lease,
            checkpoint_files=_manifest(values.checkpoint_files),
            facts={"worker_device": needs.device, "worker_threads": str(values.threads)},
        ),
    )


def _backend(words: Sequence[str]) -> BackendSpec | None:
    """Return the backend that is served; None when only help is asked for.

    The backend comes first, because the other options depend on it.
    """
    if words and not words[0].startswith("-"):
        return find_backend(words[0])
    if "--help" in words or "-h" in words:
        return None
    raise UsageError(
        "which backend shall be served? Its name comes first",
        hint=f"Installed: {', '.join(backend_names()) or 'none'}. See: {PROGRAM} --help",
    )


def _parser(spec: BackendSpec | None) -> OptionParser:
    name = "BACKEND" if spec is None else spec.name
    parser = OptionParser(
        prog=f"{PROGRAM} {name}",
        usage=f"{PROGRAM} {name} --endpoint ENDPOINT --platform NAME [options]",
        description="Serve one action model." if spec is None else spec.summary,
        epilog=_epilog(spec),
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("backend", help=argparse.SUPPRESS)
    _add_own_options(parser.add_argument_group("worker"))
    if spec is not None:
        add_options(parser.add_argument_group(f"{spec.name}'s own options"), spec.options)
    return parser


def _epilog(spec: BackendSpec | None) -> str:
    if spec is None:
        names = ", ".join(backend_names()) or "none"
        return f"Backends here: {names}. A backend's own options: {PROGRAM} BACKEND --help"
    return f"Platforms: {', '.join(spec.platforms)}. Memory: {spec.memory or 'not stated'}."


def _add_own_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-h", "--help", action="store_true", help="show this text")
    group.add_argument(
        "--endpoint",
        required=True,
        help="where to listen: ipc:///path/to/worker.sock, or tcp://host:port (port 0: any)",
    )
    group.add_argument(
        "--platform", required=True, metavar="NAME", help="the platform that the model moves"
    )
    group.add_argument("--checkpoint", metavar="PATH", help="weights (default: built in)")
    group.add_argument(
        "--device",
        choices=typing.get_args(Device),
        help="where the model computes (default: cuda if it needs a GPU)",
    )
    group.add_argument("--checkpoint-files", metavar="JSON", help=argparse.SUPPRESS)
    group.add_argument("--box", metavar="ID", help="the box that grants the clients' frames")
    group.add_argument(
        "--view",
        choices=("host", "container"),
        default="host",
        help="how this process sees the box's paths (default: host)",
    )
    group.add_argument(
        "--lease", type=Path, metavar="PATH", help="end when nobody locks this file any more"
    )
    group.add_argument(
        "--threads", type=_count, default=1, metavar="N", help="CPU threads (default: 1)"
    )
    group.add_argument(
        "--max-batch", type=_count, metavar="N", help="observations per inference, at most"
    )
    group.add_argument(
        "--max-wait-ms",
        type=_wait,
        metavar="X",
        help="how long a batch waits to be filled; auto: from measured times (default: auto)",
    )
    group.add_argument(
        "--session-idle-s",
        type=_duration,
        default=DEFAULT_SESSION_IDLE_S,
        metavar="X",
        help=f"drop a silent client's memory after this (default: {DEFAULT_SESSION_IDLE_S:g})",
    )
    group.add_argument(
        "--drain-s",
        type=_duration,
        default=DEFAULT_DRAIN_S,
        metavar="X",
        help=f"finish queued predictions within this (default: {DEFAULT_DRAIN_S:g})",
    )
    group.add_argument("--verbose", action="store_true", help="log more, and show tracebacks")


def _manifest(text: str | None) -> CheckpointManifest | None:
    """Read what whoever starts this worker found the checkpoint to be."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=CheckpointManifest)
    except msgspec.DecodeError as error:
        raise BadOption(f"--checkpoint-files is no manifest: {error}") from error


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of 1 or more")
    return int(text)


def _duration(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise argparse.ArgumentTypeError(f"{text} is not a duration")
    return number


def _wait(text: str) -> float | None:
    return None if text == "auto" else _duration(text)


def _paths(box: str | None, view: Literal["host", "container"], endpoint: str) -> BoxPaths | None:
    if box is None:
        return None
    if view == "container":
        return BoxPaths.in_container(box)
    return BoxPaths.on_host(box, runtime_dir=runtime_dir_of_endpoint(endpoint))
