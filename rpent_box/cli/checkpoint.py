# SPDX-License-Identifier: Apache-2.0
"""`rpent-box checkpoint inspect`: what a checkpoint is, before a GPU is touched."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace

from rpent_box.cli import flags
from rpent_box.cli.border import border, print_json
from rpent_box.cli.progress import speaker
from rpent_box.cli.show_checkpoint import render_checkpoint
from rpent_box.cli.spellings import Command
from rpent_box.cli.surroundings import cache_dir
from rpent_box.cli.words import backend_arguments, options_of
from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.errors import BadCheckpoint, BadOption, OutputError, UnknownName
from rpent_box.launch.checkpoints import (
    inspect_checkpoint,
    read_written,
    require_agreement,
    tying_path,
    write_manifest,
    written_path,
)
from rpent_box.options import parse_options
from rpent_box.plugins import find_backend, find_platform
from rpent_box.sim.planning import platform_of_suite
from rpent_box.sim.platform import PlatformPlugin
from rpent_box.worker.backend import BackendSpec
from rpent_box.worker.needs import require_platform

State: TypeAlias = Literal["written", "renewed", "agrees", "not written"]


class Report(Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    manifest: CheckpointManifest
    path: str
    """Where its manifest file lies, or would."""
    state: State
    problem: str = ""
    """Why it could not be written."""


def inspect(
    context: typer.Context,
    checkpoint: Annotated[
        str,
        typer.Argument(
            help="The model's weights, a file or folder.", metavar="PATH", show_default=False
        ),
    ],
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            help="The model that shall load it.",
            metavar="NAME",
            show_default=False,
            rich_help_panel=flags.WORKER,
        ),
    ],
    platform: Annotated[
        str | None,
        typer.Option(
            help="The platform that it shall move.",
            metavar="NAME",
            show_default="libero, or the first that the backend knows",
            rich_help_panel=flags.WORKER,
        ),
    ] = None,
    backend_option: flags.BackendOption = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help="A suite that it was trained on; may be repeated. A run of another is refused.",
            metavar="NAME",
            show_default=False,
            rich_help_panel=flags.OUTPUT,
        ),
    ] = None,
    write: Annotated[
        bool | None,
        typer.Option(
            "--write/--no-write",
            help="Write the manifest, over an older one too; or write nothing.",
            show_default="write where there is none, or none that names suites",
            rich_help_panel=flags.OUTPUT,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="Write the manifest to this file.",
            metavar="FILE",
            show_default="with the checkpoint",
            rich_help_panel=flags.OUTPUT,
        ),
    ] = None,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Check a checkpoint's files, hash them, and tie them to each other and to suites.

    The manifest lies with the checkpoint; from then on a run refuses files that have changed, and
    suites that the checkpoint is not for.
    """
    with border(verbose=verbose, as_json=as_json):
        spec = find_backend(backend)
        chosen = platform or flags.default_platform_of(spec)
        words = backend_arguments(
            spec,
            words=context.args,
            pairs=backend_option or [],
            predict_future=False,
            known=options_of(context),
            environ=os.environ,
        )
        _check(spec, chosen, suite or [])
        if write is False and output is not None:
            raise BadOption("--no-write and --output exclude each other", hint="Leave one out.")
        home = cache_dir(os.environ)
        say = speaker(quiet=quiet)
        manifest = inspect_checkpoint(
            spec,
            parse_options(spec.options, words, program=f"rpent-box serve {spec.name}"),
            checkpoint,
            chosen,
            tuple(suite or ()),
            say=say,
            cache=None if home is None else Path(home),
        )
        report = _settle(checkpoint, manifest, suite or (), words, write=write, output=output)
        _show(report, as_json=as_json)


def _settle(
    checkpoint: str,
    manifest: CheckpointManifest,
    suites: Sequence[str],
    words: Sequence[str],
    *,
    write: bool | None,
    output: str | None,
) -> Report:
    """Compare with the manifest that lies there, or write one; `suites` are those that were named.

    `words` are the backend's own options.

    Raises `BadCheckpoint` when they disagree, and `OutputError` when it was told to write and
    cannot.
    """
    path = written_path(checkpoint) if output is None else Path(output).expanduser().absolute()
    written = _agreeing(checkpoint, manifest, suites, words, renewing=write is True)
    if written is not None and not suites:
        manifest = replace(manifest, suites=written.suites or manifest.suites)
    told_to = write is True or output is not None
    says_more = written is None or bool(suites and not written.suites)
    if write is False or not (says_more or told_to):
        state: State = "not written" if says_more else "agrees"
        if written is not None and output is None:
            path = tying_path(checkpoint)
        return Report(manifest=manifest, path=str(path), state=state)
    state = "renewed" if path.exists() else "written"
    try:
        write_manifest(path, manifest)
    except OutputError as error:
        error.hint = "Write it elsewhere: --output FILE"
        if told_to:
            raise
        state, problem = "not written", error.message
        return Report(manifest=manifest, path=str(path), state=state, problem=problem)
    return Report(manifest=manifest, path=str(path), state=state)


def _agreeing(
    checkpoint: str,
    manifest: CheckpointManifest,
    suites: Sequence[str],
    words: Sequence[str],
    *,
    renewing: bool,
) -> CheckpointManifest | None:
    """Return the manifest that lies there, if it still tells the truth.

    Raises `BadCheckpoint` when it does not, unless it is about to be renewed.
    """
    try:
        path = tying_path(checkpoint)
        written = read_written(checkpoint)
        if written is not None:
            _require_same(suites, written.suites, path)
            require_agreement(manifest, written, path, words)
    except BadCheckpoint:
        if not renewing:
            raise
        return None
    return written


def _require_same(suites: Sequence[str], written: Sequence[str], path: Path) -> None:
    """Refuse suites that are not those of the manifest at `path`, where both name some."""
    if suites and written and set(suites) != set(written):
        raise BadCheckpoint(
            f"{path} was written for {', '.join(written)}, not for {', '.join(suites)}",
            hint="Leave --suite out, or, if this is meant, renew it: --write",
        )


def _show(report: Report, *, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    note = f"{report.path} ({report.state})"
    if report.state == "not written":
        note = "not written (--write writes it)"
    sys.stdout.write(render_checkpoint(report.manifest, note=note))
    if report.problem:
        text = msgspec.json.format(msgspec.json.encode(report.manifest), indent=2).decode()
        sys.stdout.write(f"\nThis is what {report.path} would hold:\n\n{text}\n")
        sys.stderr.write(
            f"not written: {report.problem}\nnext:  write it elsewhere: --output FILE\n"
        )


def _check(spec: BackendSpec, platform: str, suites: Sequence[str]) -> None:
    if spec.checkpoint_is == "name" or spec.inspect is None:
        raise BadOption(
            f"{spec.name} has no files of its own to look at",
            hint="Its checkpoint names what a service has loaded."
            if spec.checkpoint_is == "name"
            else "Its author has not said how to look at one without loading it.",
        )
    require_platform(spec, platform)
    plugin = _installed(platform)
    # What was trained for a suite may play its variants, and is tied to the suite itself.
    own = [] if plugin is None else plugin.suites
    known = [name for one in own for name in (one.name, one.variant_of) if name]
    for suite in suites if known else ():
        if suite not in known:
            other = platform_of_suite(suite)
            raise UnknownName(
                f"there is no suite called {suite} on {platform}",
                hint=f"It is a suite of {other}: --platform {other}"
                if other not in ("", platform)
                else f"It has: {', '.join(dict.fromkeys(known))}",
            )


def _installed(platform: str) -> PlatformPlugin | None:
    """Return the platform's plugin; a checkpoint may be looked at without one."""
    try:
        return find_platform(platform)
    except UnknownName:
        return None


app = typer.Typer(
    help="Look at models' files, before a GPU is touched.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(cls=Command, context_settings=flags.PASS_THROUGH)(inspect)


@app.callback()
def _group() -> None:
    """Look at models' files, before a GPU is touched."""
