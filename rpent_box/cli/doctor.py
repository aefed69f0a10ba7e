# SPDX-License-Identifier: Apache-2.0
"""`rpent-box doctor`: is this machine ready, and if not, what is the next step?"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from rpent_box.cli import flags, play_flags
from rpent_box.cli.border import NOT_COMPLETED, border, print_json
from rpent_box.cli.checks.examination import Examination, examine
from rpent_box.cli.prepared import look_once
from rpent_box.cli.show_checks import render_finding, render_verdict
from rpent_box.cli.surroundings import runtime_dir
from rpent_box.cli.words import platform_arguments, split_platform_words
from rpent_box.errors import BadOption, UsageError
from rpent_box.plugins import find_platform


def doctor(
    context: typer.Context,
    platform: Annotated[
        str | None,
        typer.Option(
            "--platform",
            help="Draw with this platform only.",
            metavar="NAME",
            show_default="each whose image or environment is built",
        ),
    ] = None,
    render: Annotated[
        bool, typer.Option("--render/--no-render", help="Draw a frame and compare the known scene.")
    ] = True,
    platform_python: play_flags.PlatformPython = None,
    platform_cuda_device: play_flags.PlatformCudaDevice = None,
    platform_option: play_flags.PlatformOption = None,
    timeout: Annotated[
        float, typer.Option(help="Longest wait for a frame.", metavar="SECONDS", min=1)
    ] = 300.0,
    launcher: flags.Launcher = "auto",
    as_json: flags.AsJson = False,
    verbose: flags.Verbose = False,
) -> None:
    """Check this machine: Python, Docker, shared memory, sockets, GPUs, what is built, rendering.

    Exit code 0 when nothing fails. A warning is no failure.
    """
    with border(verbose=verbose, as_json=as_json):
        asked = Examination(
            platform=platform,
            platform_words=_platform_words(context, platform, platform_option or []),
            render=render,
            launcher=launcher,
            platform_python=platform_python,
            platform_cuda_device=platform_cuda_device,
            timeout_s=timeout,
            runtime_dir=runtime_dir(os.environ),
        )
        findings = []
        for finding in examine(asked, look_once(), os.environ):
            findings.append(finding)
            if not as_json:
                sys.stdout.write(render_finding(finding))
                sys.stdout.flush()
        ready = all(finding.status != "fail" for finding in findings)
        if as_json:
            report = {"ready": ready, "findings": findings}
            print_json(report)
        else:
            sys.stdout.write(render_verdict(findings))
        if not ready:
            raise typer.Exit(NOT_COMPLETED)


def _platform_words(
    context: typer.Context, platform: str | None, pairs: list[str]
) -> tuple[str, ...]:
    """Return the words for the own options of the platform that is named. Raises `UsageError`."""
    if platform is None:
        if pairs or context.args:
            raise UsageError(
                f"whose option is {[*pairs, *context.args][0]}?",
                hint="Name the platform: --platform NAME. See: rpent-box doctor --help",
            )
        return ()
    plugin = find_platform(platform)
    words, rest = split_platform_words(plugin, context.args)
    if rest:
        raise BadOption(
            f"there is no option {rest[0]}, neither here nor of {plugin.name}",
            hint=f"See: rpent-box doctor --help, rpent-box list --platform {plugin.name}",
        )
    return platform_arguments(plugin, pairs, words=words, environ={})
