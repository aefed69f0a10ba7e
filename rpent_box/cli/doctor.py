# SPDX-License-Identifier: Apache-2.0
"""`rpent-box doctor`: is this machine ready, and if not, what is the next step?"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import msgspec
import typer

from rpent_box.cli import flags, run_flags
from rpent_box.cli.border import NOT_COMPLETED, border
from rpent_box.cli.checks.examination import Examination, examine
from rpent_box.cli.prepared import look_once
from rpent_box.cli.show_checks import render_finding, render_verdict
from rpent_box.cli.surroundings import runtime_dir


def doctor(
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
    platform_python: run_flags.PlatformPython = None,
    platform_cuda_device: run_flags.PlatformCudaDevice = None,
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
            encoded = msgspec.json.format(msgspec.json.encode(report), indent=2)
            sys.stdout.write(encoded.decode() + "\n")
        else:
            sys.stdout.write(render_verdict(findings))
        if not ready:
            raise typer.Exit(NOT_COMPLETED)
