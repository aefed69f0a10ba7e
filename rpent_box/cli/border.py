# SPDX-License-Identifier: Apache-2.0
"""Where errors leave the program: one screen of advice, an exit code, and no traceback unasked."""

from __future__ import annotations

import errno
import json
import os
import select
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import typer

from rpent_box.errors import OutputError, RpentBoxError, UsageError
from rpent_box.launch.signals import unwinding_on_signals

NOT_COMPLETED = 1
WRONG_USAGE = 2
INTERRUPTED = 130
"""What a shell expects after Ctrl-C."""
PIPE_CLOSED = 141
"""What a shell expects of a command whose reader has gone."""

MESSAGE_LINES = 12
DETAIL_LINES = 200
"""Of a traceback or a log, `--verbose` shows the end: the cause is there."""


@contextmanager
def border(*, verbose: bool, as_json: bool = False) -> Iterator[None]:
    """Turn every error of the block into text on stderr and an exit code.

    Ctrl-C and SIGTERM unwind the block, so that what it started is ended, and exit as a shell
    expects.

    With `as_json`, stdout gets one object with the single key `error`.
    """
    try:
        with unwinding_on_signals():
            yield
        sys.stdout.flush()
    except OSError as error:
        raise typer.Exit(_report_os_error(error, verbose=verbose, as_json=as_json)) from None
    except RpentBoxError as error:
        detail = error.detail
        if verbose and not detail:
            detail = "".join(traceback.format_exception(error)).rstrip()
        _report(error, detail=detail, verbose=verbose, as_json=as_json)
        raise typer.Exit(exit_code_of(error)) from None
    except KeyboardInterrupt:
        _say_interrupted(as_json=as_json)
        raise typer.Exit(INTERRUPTED) from None
    except SystemExit:
        _say_interrupted(as_json=as_json)
        raise
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as error:  # noqa: BLE001 - the last border: a defect of ours is reported too
        raise typer.Exit(_report_defect(error, verbose=verbose, as_json=as_json)) from None


def print_json(value: object) -> None:
    """Write what `--json` prints: one indented object on stdout."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def exit_code_of(error: RpentBoxError) -> int:
    """Return 2 for words that cannot be right, 1 for everything else."""
    return WRONG_USAGE if isinstance(error, UsageError) else NOT_COMPLETED


def render_error(error: RpentBoxError, *, detail: str = "", verbose: bool = False) -> str:
    """Return what the terminal shows: the message, the next step and, if asked, the evidence."""
    lines = _indented("error: ", _shortened(error.message))
    if error.hint:
        lines += _indented("next:  ", error.hint)
    if detail and verbose:
        lines += ["", *detail.splitlines()[-DETAIL_LINES:]]
    elif detail:
        lines.append("       --verbose shows the details.")
    return "\n".join(lines) + "\n"


def error_as_json(error: RpentBoxError, *, detail: str = "") -> str:
    """Return the object that `--json` prints instead of a summary."""
    fields = {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "detail": detail or error.detail,
    }
    return json.dumps({"error": fields}, indent=2)


def _report_defect(error: Exception, *, verbose: bool, as_json: bool) -> int:
    defect = RpentBoxError(
        f"rpent-box itself failed: {type(error).__name__}: {error}",
        hint="This is a defect of ours: please report it with what --verbose shows.",
    )
    detail = "".join(traceback.format_exception(error)).rstrip()
    _report(defect, detail=detail, verbose=verbose, as_json=as_json)
    return NOT_COMPLETED


def _report_os_error(error: OSError, *, verbose: bool, as_json: bool) -> int:
    """Report what nobody has translated: of a file of ours it would be an `OutputError`."""
    if isinstance(error, BrokenPipeError) and _reader_is_gone():
        return PIPE_CLOSED
    if error.errno != errno.ENOSPC:
        return _report_defect(error, verbose=verbose, as_json=as_json)
    _forget_stdout()
    full = OutputError("standard output cannot be written: the disk is full", hint="Make room.")
    _report(full, detail="", verbose=verbose, as_json=False)
    return NOT_COMPLETED


def _reader_is_gone() -> bool:
    """Say whether whoever read stdout (`| head`) has seen enough; Python then forgets the rest."""
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)
    if not poller.poll(0):
        return False
    _forget_stdout()
    return True


def _forget_stdout() -> None:
    """Let what is not written yet go nowhere: Python would try again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(error: RpentBoxError, *, detail: str, verbose: bool, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(error_as_json(error, detail=detail) + "\n")
    sys.stderr.write(render_error(error, detail=detail, verbose=verbose))


def _say_interrupted(*, as_json: bool) -> None:
    if as_json:
        interrupted = {"code": "interrupted", "message": "stopped on request"}
        sys.stdout.write(json.dumps({"error": {**interrupted, "hint": "", "detail": ""}}) + "\n")
    sys.stderr.write("stopped: everything that this command had started is ended\n")


def _indented(label: str, text: str) -> list[str]:
    first, *rest = text.splitlines() or [""]
    return [label + first, *(" " * len(label) + line for line in rest)]


def _shortened(text: str) -> str:
    lines = text.splitlines()
    if len(lines) <= MESSAGE_LINES:
        return text
    left_out = len(lines) - MESSAGE_LINES
    return "\n".join([*lines[:MESSAGE_LINES], f"({left_out} more lines)"])
