# SPDX-License-Identifier: Apache-2.0
"""Words of the command line that belong to a backend or a platform and not to us."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence

import msgspec
import typer
from msgspec import Struct

from rpent_box.errors import BadOption
from rpent_box.launch.recipe import run_command
from rpent_box.launch.simulator import how_to_fetch
from rpent_box.options import parse_options, path_fields, switches, to_arguments
from rpent_box.plugins import platform_names
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
    mine = [_without_prefix(spec, word) for word in words]
    mine += [_pair_to_word(spec.options, pair) for pair in pairs]
    if predict_future:
        _require_option(spec, "predict_future", "--predict-future")
        mine.append("--predict-future")
    for word in mine:
        _refuse_unknown(spec, word, known)
    mine += _from_environment_of(spec, mine, environ)
    return tuple(_checked(spec.options, mine, program=f"rpent-box serve {spec.name}"))


def split_platform_words(
    plugin: PlatformPlugin, words: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the words that belong to the platform, as it reads them, and all others.

    `--toy-speed 2` is the option `speed` of a platform toy. Raises `BadOption` for an option that
    carries the platform's name and is none of its own, or lacks its value.
    """
    mine, others = [], []
    left = iter(words)
    for word in left:
        flag = _flag_of_platform(plugin, word)
        if flag is None:
            others.append(word)
            continue
        _refuse_unknown_to_platform(plugin, flag, _spelled(plugin))
        mine.append(flag)
        if "=" not in flag and _takes_a_value(plugin, flag):
            mine.append(_value(word, next(left, None)))
    return mine, others


def platform_arguments(
    plugin: PlatformPlugin,
    pairs: Sequence[str],
    *,
    words: Sequence[str] = (),
    environ: Mapping[str, str],
) -> tuple[str, ...]:
    """Return the words for the simulator's own options, checked against `plugin.options`.

    `pairs` are `key=value`, `words` are of `split_platform_words`. What is not given is filled from
    the variables in `environ` that the platform declares. Raises `BadOption`.
    """
    mine = [*words]
    keys = {flag: flag.removeprefix("--").replace("-", "_") for flag in _own(plugin)}
    for pair in pairs:
        word = _pair_to_word(plugin.options, pair)
        _refuse_unknown_to_platform(plugin, word, keys)
        mine.append(word)
    try:
        mine += _from_environment(
            plugin.options, plugin.env_fallbacks, mine, environ, prefix=f"{plugin.name}-"
        )
    except BadOption as error:
        error.hint = "\n".join(filter(None, (error.hint, how_to_fetch(plugin))))
        raise
    return tuple(_checked(plugin.options, mine, program=run_command(plugin)))


def platform_flags(plugin: PlatformPlugin) -> list[str]:
    """Return how our own command line spells the platform's options, e.g. `--toy-speed`."""
    return list(_spelled(plugin).values())


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


def _from_environment_of(
    spec: BackendSpec, words: Sequence[str], environ: Mapping[str, str]
) -> list[str]:
    flags = {word.split("=")[0] for word in words}
    if spec.borrows and "--" + spec.borrows.replace("_", "-") in flags:
        # The service was started with files of its own.
        return []
    return _from_environment(spec.options, spec.env_fallbacks, words, environ)


def _from_environment(
    options: type[Struct],
    fallbacks: Mapping[str, str],
    words: Sequence[str],
    environ: Mapping[str, str],
    *,
    prefix: str = "",
) -> list[str]:
    """Return words for the options that a declared variable stands in for.

    `prefix` is what people write before an option's name, for the error.
    """
    flags = {word.split("=")[0] for word in words}
    own = set(option_names(options))
    found = []
    for variable, field in fallbacks.items():
        flag = "--" + field.replace("_", "-")
        value = environ.get(variable)
        if flag not in own or flag in flags or not value:
            continue
        # Not pathlib: it raises for the home of somebody unknown, and for a folder closed to us.
        if field in path_fields(options) and not os.path.exists(os.path.expanduser(value)):
            spelled = f"--{prefix}{flag.removeprefix('--')}"
            raise BadOption(
                f"{variable}, which stands in for {spelled}, names {value}, and nothing is there",
                hint=f"Unset or correct it, or give {spelled} PATH.",
            )
        found.append(f"{flag}={value}")
    return found


def _own(plugin: PlatformPlugin) -> list[str]:
    return option_names(plugin.options)


def _spelled(plugin: PlatformPlugin) -> dict[str, str]:
    """Return each option of the platform → how our command line spells it."""
    return {flag: f"--{plugin.name}-{flag.removeprefix('--')}" for flag in _own(plugin)}


def _flag_of_platform(plugin: PlatformPlugin, word: str) -> str | None:
    """Return `word` without the platform's name; None where it carries none."""
    for name in (plugin.name, *plugin.aliases):
        for no in ("", "no-"):
            prefix = f"--{no}{name}-"
            if word.startswith(prefix):
                return f"--{no}{word.removeprefix(prefix)}"
    return None


def _value(word: str, given: str | None) -> str:
    """Return the value that was given to the option `word`. Raises `BadOption` if it was none."""
    if given is None or given.startswith("--"):
        raise BadOption(
            f"{word} wants a value",
            hint=f"Write {word} VALUE, or {word}=VALUE for one that begins with two dashes.",
        )
    return given


def _takes_a_value(plugin: PlatformPlugin, flag: str) -> bool:
    field = flag.removeprefix("--").replace("-", "_")
    return field.removeprefix("no_") not in switches(plugin.options)


def _refuse_unknown_to_platform(
    plugin: PlatformPlugin, word: str, spelled: Mapping[str, str]
) -> None:
    """Raise `BadOption` with a suggestion; `spelled` is how each option was to be written."""
    flag = word.split("=")[0]
    turned_on = flag.replace("--no-", "--", 1)
    if flag in spelled or (turned_on in spelled and not _takes_a_value(plugin, turned_on)):
        return
    close = difflib.get_close_matches(flag, list(spelled), n=1, cutoff=0.6)
    meant = f"Did you mean {spelled[close[0]]}? " if close else ""
    raise BadOption(
        f"the platform {plugin.name} has no option {flag.removeprefix('--')}",
        hint=f"{meant}See: rpent-box list --platform {plugin.name}",
    )


def _platform_in(flag: str) -> str:
    """Return the installed platform whose name `flag` begins with; empty where there is none."""
    named = [name for name in platform_names() if flag.startswith(f"--{name}-")]
    # Of libero and libero-pro, the longer.
    return max(named, key=len, default="")


def _without_prefix(spec: BackendSpec, word: str) -> str:
    for name in (spec.name, *spec.aliases):
        prefix = f"--{name}-"
        if word.startswith(prefix):
            return "--" + word.removeprefix(prefix)
    return word


def _pair_to_word(options: type[Struct], pair: str) -> str:
    """Return `KEY=VALUE` as a word; `true` and `false` are a switch's, elsewhere they are text."""
    key, equals, value = pair.partition("=")
    flag = "--" + key.strip().lstrip("-").replace("_", "-")
    if flag == "--":
        raise BadOption(f"{pair!r} is not KEY=VALUE")
    if equals and flag.removeprefix("--").replace("-", "_") not in switches(options):
        return f"{flag}={value}"
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
    # Of a platform's option the name of the platform is easily forgotten.
    close = [name for name in known if name.endswith(flag.removeprefix("-"))]
    close = close or difflib.get_close_matches(flag, [*known, *own], n=1, cutoff=0.75)
    platform = _platform_in(flag)
    hint = f"Did you mean {close[0]}?" if close else f"See: rpent-box serve {spec.name} --help"
    if platform and not close:
        hint = f"It begins like an option of {platform}: rpent-box run --platform {platform} --help"
    raise BadOption(f"there is no option {flag}, neither here nor of {spec.name}", hint=hint)
