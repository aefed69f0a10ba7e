# SPDX-License-Identifier: Apache-2.0
"""Every option that an error tells the user to give exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import typer
from typer.main import get_command

import rpent_box
from rpent_box.cli.app import app
from rpent_box.plugins import backend_names, find_backend
from rpent_box.worker.arguments import parse_arguments

PACKAGE = Path(rpent_box.__file__).parent
OPTION = re.compile(r"--[a-z][a-z0-9-]+")

FOREIGN = {
    "--force": "docker rm",
    "--shm-size": "docker run",
    "--runtime": "dockerd's own",
}
"""Options of other programs, and whose they are."""


def hints(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of every `hint=…` in a file; of an f-string, its constant parts."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            parts = [
                part.value
                for part in ast.walk(node.value)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            yield node.value.lineno, " ".join(parts)


def known_options() -> set[str]:
    """Return the options of every command, and of every worker by itself."""
    root = get_command(app)
    assert isinstance(root, typer.core.TyperGroup)
    commands = [root]
    for one in commands:  # It grows by the commands of each group.
        commands += getattr(one, "commands", {}).values()
    found = {word for one in commands for each in one.params for word in each.opts}
    found |= {"--help", *FOREIGN}
    for name in backend_names():
        fields = find_backend(name).options.__struct_fields__
        found |= {"--" + field.replace("_", "-") for field in fields}
        usage = parse_arguments([name, "--help"])
        assert isinstance(usage, str)
        found |= set(OPTION.findall(usage))
    return found


def test_every_option_in_a_hint_exists() -> None:
    known = known_options()
    unknown = [
        f"{path.relative_to(PACKAGE)}:{line} {option}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if "backends" not in path.parts  # their trainers are programs with options of their own
        for line, text in hints(path)
        for option in OPTION.findall(text)
        if option not in known
    ]
    assert unknown == []


def test_hints_are_found_at_all() -> None:
    texts = [text for path in PACKAGE.rglob("*.py") for _, text in hints(path)]
    assert sum("--" in text for text in texts) > 10
