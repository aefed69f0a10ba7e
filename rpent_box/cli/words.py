# SPDX-License-Identifier: Apache-2.0
"""Words of the command line that belong to a backend or a platform and not to us."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import typer
from msgspec import Struct

from rpent_box.errors import BadOption
from rpent_box.options import parse_options, path_fields, to_arguments
from rpent_box.sim.platform import PlatformPlugin
from rpent_box.worker.backend import BackendSpec


def backend_arguments(
    spec: BackendSpec,
    *,
    words: Sequence[str],
    pairs: Sequence[str],
    predict_future: bool,
    known: Sequence[str],
    environ: Mapping[str, str],
) -> tuple[str, ...]:
    """Return the words for the worker's own options, checked against `spec.options`.

    `words` are unknown options of ours, `pairs` are `key=value`, `known` are our own options, for
    the suggestion when a word is neither. `--fast-wam-config` counts as `--config` of fast-wam.
    What is not given is filled from the variables in `environ` that the backend declares. Raises
    `BadOption`.
    """
    mine = [_without_prefix(spec, word) for word in words] + [_pair_to_word(pair) for pair in pairs]
    if predict_future:
        _require_option(spec, "predict_future", "--predict-future")
        mine.append("--predict-future")
    for word in mine:
        _refuse_unknown(spec, word, known)
    mine += _from_environment(spec, mine, environ)
    return tuple(_checked(spec.options, mine, program=f"rpent-box serve {spec.name}"))


def platform_arguments(plugin: PlatformPlugin, pairs: Sequence[str]) -> tuple[str, ...]:
    """Return the words for the simulator's own options. Raises `BadOption`."""
    words = [_pair_to_word(pair) for pair in pairs]
    known = option_names(plugin.options)
    for word in words:
        if word.split("=")[0].replace("--no-", "--", 1) not in known:
            raise BadOption(
                f"the platform {plugin.name} has no option {word.split('=')[0].lstrip('-')}",
                hint=f"See: rpent-box list --platform {plugin.name}",
            )
    return tuple(_checked(plugin.options, words, program=f"the platform {plugin.name}"))


def options_of(context: typer.Context) -> list[str]:
    """Return every option that the running command declares itself."""
    return [flag for option in context.command.params for flag in option.opts]


def option_names(options: type[Struct]) -> list[str]:
    """Return the command-line spelling of every field of `options`."""
    return ["--" + field.name.replace("_", "-") for field in msgspec.structs.fields(options)]


def _checked(options: type[Struct], words: list[str], *, program: str) -> list[str]:
    """Return only what differs from the defaults, in the spelling that the worker reads."""
    given = to_arguments(parse_options(options, words, program=program))
    defaults = set(to_arguments(options()))
    return [word for word in given if word not in defaults]


def _from_environment(
    spec: BackendSpec, words: Sequence[str], environ: Mapping[str, str]
) -> list[str]:
    """Return words for the options that a declared variable stands in for."""
    flags = {word.split("=")[0] for word in words}
    if spec.borrows and "--" + spec.borrows.replace("_", "-") in flags:
        # The service was started with files of its own.
        return []
    own = set(option_names(spec.options))
    found = []
    for variable, field in spec.env_fallbacks.items():
        flag = "--" + field.replace("_", "-")
        value = environ.get(variable)
        if flag not in own or flag in flags or not value:
            continue
        if field in path_fields(spec.options) and not Path(value).expanduser().exists():
            raise BadOption(
                f"{variable}, which stands in for {flag}, names {value}, and nothing is there",
                hint=f"Unset or correct it, or give {flag} PATH.",
            )
        found.append(f"{flag}={value}")
    return found


def _without_prefix(spec: BackendSpec, word: str) -> str:
    for name in (spec.name, *spec.aliases):
        prefix = f"--{name}-"
        if word.startswith(prefix):
            return "--" + word.removeprefix(prefix)
    return word


def _pair_to_word(pair: str) -> str:
    key, equals, value = pair.partition("=")
    flag = "--" + key.strip().lstrip("-").replace("_", "-")
    if flag == "--":
        raise BadOption(f"{pair!r} is not KEY=VALUE")
    if not equals or value == "true":
        return flag
    if value == "false":
        return "--no-" + flag.removeprefix("--")
    return f"{flag}={value}"


def _require_option(spec: BackendSpec, field: str, flag: str) -> None:
    if field not in {declared.name for declared in msgspec.structs.fields(spec.options)}:
        raise BadOption(
            f"{spec.name} has no option {flag}",
            hint=f"What it has: rpent-box serve {spec.name} --help",
        )


def _refuse_unknown(spec: BackendSpec, word: str, known: Sequence[str]) -> None:
    flag = word.split("=")[0]
    own = option_names(spec.options)
    if not flag.startswith("--") or flag in own or flag.replace("--no-", "--", 1) in own:
        return
    close = difflib.get_close_matches(flag, [*known, *own], n=1, cutoff=0.75)
    hint = f"Did you mean {close[0]}?" if close else f"See: rpent-box serve {spec.name} --help"
    raise BadOption(f"there is no option {flag}, neither here nor of {spec.name}", hint=hint)
