# SPDX-License-Identifier: Apache-2.0
"""What there is to teach, asked of the Python that teaches: only that one has the experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from rpent_box.cli.mini_stages import TEACHING, tasks_in_words
from rpent_box.errors import EnvironmentMissing, UnknownName
from rpent_box.evaluate.stages.pythons import ask

ASK_TIMEOUT_S = 300.0
"""Its packages are imported, which is slow on a busy machine."""
_PROGRAM = """
import importlib, json, sys
from rpent_box.errors import RpentBoxError
module, function, arguments = sys.argv[1:]
find = getattr(importlib.import_module(module), function)
try:
    find(**json.loads(arguments))
except RpentBoxError as error:
    print(json.dumps({"message": error.message, "hint": error.hint}))
else:
    print("{}")
"""
"""Its last line is why what is looked for cannot be had, or empty."""


class Refusal(Struct, frozen=True, kw_only=True):
    message: str = ""
    hint: str = ""


def require_lessons(python: str, names: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise `UnknownName` where there is no lesson or suite of lessons called so."""
    arguments = {"names": names, "own_only": False}
    _require(python, f"{TEACHING}.generate", "find_lessons", arguments, environ)


def require_sentences(
    python: str, suite: str, tasks: Sequence[int | str], environ: Mapping[str, str]
) -> None:
    """Raise `UnknownName` where no other task's sentence can be said in the scenes of `tasks`."""
    arguments = {"suite": suite, "tasks": tasks_in_words(tasks)}
    _require(python, f"{TEACHING}.controls", "choose_lessons", arguments, environ)


def _require(
    python: str, module: str, function: str, arguments: object, environ: Mapping[str, str]
) -> None:
    words = (module, function, msgspec.json.encode(arguments).decode())
    said = ask(python, _PROGRAM, words, environ=environ, timeout_s=ASK_TIMEOUT_S)
    try:
        refusal = msgspec.json.decode(said.strip().rpartition("\n")[2], type=Refusal)
    except msgspec.DecodeError as error:
        raise EnvironmentMissing(
            f"{python} does not say what there is to teach: {error}", detail=said
        ) from error
    if refusal.message:
        raise UnknownName(refusal.message, hint=refusal.hint)
