# SPDX-License-Identifier: Apache-2.0
"""The Docker engine, and a docker command that can build."""

from __future__ import annotations

from collections.abc import Mapping

from rpent_box.cli.checks.finding import Finding, ok, warn
from rpent_box.errors import LaunchError, RpentBoxError
from rpent_box.launch.build import find_builder
from rpent_box.launch.engine_socket import check_engine, engine_socket

WITHOUT = "everything works without, in processes"


def check_engine_answers() -> Finding:
    """Whether containers can be used, and why not. Nothing fails without: processes do as well."""
    try:
        check_engine(engine_socket())
        # Late: the Docker SDK takes longer to import than to find out that there is no engine.
        from rpent_box.launch.engine import Engine

        engine = Engine.connect()
    except LaunchError as error:
        return warn("docker engine", f"{error.message}; {WITHOUT}", error.hint)
    traits = [
        name
        for name, present in (
            ("rootless", engine.rootless),
            ("user namespaces", engine.remaps_users),
            ("SELinux", engine.selinux),
        )
        if present
    ]
    extra = f" ({', '.join(traits)})" if traits else ""
    return ok("docker engine", f"Docker {engine.version} at {engine.socket}{extra}")


def check_docker_command(environ: Mapping[str, str]) -> Finding:
    """Whether images can be built. Running them needs no docker command."""
    try:
        builder = find_builder(environ)
    except RpentBoxError as error:
        return warn("docker command", error.message, error.hint)
    return ok("docker command", f"{builder.docker} builds with BuildKit")
