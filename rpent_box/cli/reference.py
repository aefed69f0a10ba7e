# SPDX-License-Identifier: Apache-2.0
"""Prints docs/cli.md, made from the command line itself: `make docs`.

`python -m rpent_box.cli.reference --check docs/cli.md` writes nothing and exits with 1 when the
page is not up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import typer

from rpent_box.cli.app import app

HEAD = """# Command line

<!-- Written by `make docs`: edit the commands in rpent_box/cli instead. -->

Every command takes `--help`, and `--verbose` to show tracebacks and log lines with an error. Errors
say what came, what was wanted and what to do next. Exit codes: 0 done, 1 not completed, 2 wrong
usage, 130 stopped by Ctrl-C.
"""


class Parameter(Protocol):
    """What click and typer say about an option or an argument."""

    param_type_name: str
    opts: Sequence[str]
    secondary_opts: Sequence[str]
    default: object
    show_default: bool | str | None
    metavar: str | None
    name: str | None
    help: str | None
    rich_help_panel: str | None
    hidden: bool


class Command(Protocol):
    """What click and typer say about a command."""

    name: str | None
    help: str | None
    epilog: str | None
    params: Sequence[Any]


def render_reference() -> str:
    """Return the whole page."""
    group = cast(Any, typer.main.get_command(app))
    return "\n".join([HEAD, *(_command(name, command) for name, command in _commands(group))])


def main(words: Sequence[str]) -> int:
    """Print the page, or check the one at the path behind `--check`; return the exit code."""
    page = render_reference()
    if not words:
        sys.stdout.write(page)
        return 0
    path = Path(words[-1])
    if path.is_file() and path.read_text() == page:
        return 0
    sys.stderr.write(f"{path} is not up to date\nnext:  make docs\n")
    return 1


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Command]]:  # noqa: ANN401
    """Yield each command with its whole name, `checkpoint inspect`, in the order of the help."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield before + name, command


def _command(name: str, command: Command) -> str:
    parameters = [cast(Parameter, parameter) for parameter in command.params]
    usage = " ".join(["rpent-box", name, *_arguments(parameters), "[OPTIONS]"])
    parts = [f"## `{usage}`", command.help or ""]
    parts += list(_panels(parameters))
    if command.epilog:
        parts.append(command.epilog)
    return "\n\n".join(part for part in parts if part) + "\n"


def _arguments(parameters: Sequence[Parameter]) -> list[str]:
    found = [one for one in parameters if one.param_type_name == "argument"]
    return [one.metavar or (one.name or "").upper() for one in found]


def _panels(parameters: Sequence[Parameter]) -> Iterator[str]:
    shown = [one for one in parameters if one.param_type_name == "option" and not one.hidden]
    for title in dict.fromkeys(one.rich_help_panel or "" for one in shown):
        rows = [_row(one) for one in shown if (one.rich_help_panel or "") == title]
        heading = title or "Options"
        yield "\n".join([f"| {heading} | | Default |", "|---|---|---|", *rows])


def _row(parameter: Parameter) -> str:
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    if parameter.metavar:
        names += f" {parameter.metavar}"
    spelled = f"`{names}`".replace("|", r"\|")
    text = " ".join((parameter.help or "").split())
    return f"| {spelled} | {text} | {_default(parameter)} |"


def _default(parameter: Parameter) -> str:
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    default = parameter.default
    if default is None or default is False or parameter.show_default is False:
        return ""
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
