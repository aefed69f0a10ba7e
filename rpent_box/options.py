# SPDX-License-Identifier: Apache-2.0
"""Typed options of backends and platforms: a frozen Struct is the declaration, argparse the reader.

argparse and not typer, because this runs inside model images, which get the core dependencies only.
"""

from __future__ import annotations

import argparse
import types
import typing
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from rpent_box.errors import BadOption

OptionsT = TypeVar("OptionsT", bound=Struct)


class OptionParser(argparse.ArgumentParser):
    """Raises `BadOption` where argparse would end the process."""

    def error(self, message: str) -> typing.NoReturn:
        raise BadOption(message, hint=f"See: {self.prog} --help")


def add_options(
    parser: argparse._ActionsContainer, options: type[Struct], *, prefix: str = ""
) -> None:
    """Add one `--field-name` per field of `options`; a bool becomes `--field` / `--no-field`.

    `prefix` comes before each name, e.g. `toy-`.
    """
    for field in msgspec.structs.fields(options):
        kind, description = _unwrap(field.type)
        flag = f"--{prefix}{field.name.replace('_', '-')}"
        text = _with_default(description, field.default)
        if kind is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
        else:
            parser.add_argument(flag, metavar=_metavar(kind), help=text, choices=_choices(kind))


def parse_options(options: type[OptionsT], arguments: Sequence[str], *, program: str) -> OptionsT:
    """Read `arguments` into an instance of `options`.

    Raises `BadOption` for an unknown option, or a value of the wrong type or range.
    """
    parser = OptionParser(prog=program, add_help=False, allow_abbrev=False)
    add_options(parser, options)
    return options_from(options, vars(parser.parse_args(list(arguments))))


def options_from(options: type[OptionsT], values: dict[str, Any]) -> OptionsT:
    """Build `options` from text values; None means not given. Raises `BadOption`."""
    names = {field.name for field in msgspec.structs.fields(options)}
    given = {name: value for name, value in values.items() if name in names and value is not None}
    try:
        return msgspec.convert(given, options, strict=False)
    except msgspec.ValidationError as error:
        raise BadOption(f"an option cannot be used: {error}") from error


def to_arguments(values: Struct) -> list[str]:
    """Return the command-line words that `parse_options` reads back as `values`."""
    words: list[str] = []
    for field in msgspec.structs.fields(type(values)):
        value = getattr(values, field.name)
        flag = field.name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words.append(f"--{flag}={value}")
    return words


def describe_options(options: type[Struct]) -> dict[str, str]:
    """Return field name → what it is for, with its default."""
    found = {}
    for field in msgspec.structs.fields(options):
        kind, description = _unwrap(field.type)
        choices = f" ({', '.join(_choices(kind) or ())})" if _choices(kind) else ""
        found[field.name] = _with_default(f"{description}{choices}", field.default)
    return found


def path_fields(options: type[Struct]) -> list[str]:
    """Return the fields that hold a path: `Annotated[str, Meta(extra={"path": True})]`.

    The launcher makes such a path absolute and shows it to the program's container, read-only.
    """
    return [field.name for field in msgspec.structs.fields(options) if _is_path(field.type)]


def switches(options: type[Struct]) -> list[str]:
    """Return the fields that are on or off: their words take no value."""
    return [
        field.name for field in msgspec.structs.fields(options) if _unwrap(field.type)[0] is bool
    ]


def _with_default(text: str, default: object) -> str:
    """Add the default, unless it stands for something that is not given."""
    nothing = default is None or default == "" or default is msgspec.NODEFAULT
    return text.strip() if nothing else f"{text} (default: {default})".strip()


def _is_path(annotation: Any) -> bool:  # noqa: ANN401 - a type expression has no type
    if isinstance(annotation, msgspec.Meta):
        return bool((annotation.extra or {}).get("path"))
    return any(_is_path(part) for part in typing.get_args(annotation))


def _unwrap(annotation: Any) -> tuple[Any, str]:  # noqa: ANN401 - a type expression has no type
    description = ""
    if typing.get_origin(annotation) is typing.Annotated:
        annotation, *extras = typing.get_args(annotation)
        for extra in extras:
            if isinstance(extra, msgspec.Meta) and extra.description:
                description = extra.description
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        inner = [kind for kind in typing.get_args(annotation) if kind is not type(None)]
        annotation = inner[0] if len(inner) == 1 else str
    return annotation, description


def _choices(kind: Any) -> list[str] | None:  # noqa: ANN401
    if typing.get_origin(kind) is typing.Literal:
        return [str(choice) for choice in typing.get_args(kind)]
    return None


def _metavar(kind: Any) -> str | None:  # noqa: ANN401
    return None if _choices(kind) else {int: "N", float: "X"}.get(kind, "TEXT")
