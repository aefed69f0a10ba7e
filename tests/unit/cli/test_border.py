# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer

from rpent_box import errors
from rpent_box.cli.border import border, error_as_json, exit_code_of, render_error
from rpent_box.errors import RpentBoxError

SCREEN_LINES = 24
LONG = "\n".join(f"line {number}" for number in range(300))


def every_class(kind: type[RpentBoxError] = RpentBoxError) -> Iterator[type[RpentBoxError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from every_class(child)


@pytest.mark.parametrize("kind", sorted(every_class(), key=lambda kind: kind.__name__))
def test_every_error_fits_one_screen_and_names_the_next_step(kind: type[RpentBoxError]) -> None:
    error = kind("what came\nand what was wanted", hint="rpent-box doctor", detail=LONG)
    text = render_error(error, detail=error.detail)
    assert text.startswith("error: what came\n")
    assert "next:  rpent-box doctor" in text
    assert "--verbose" in text
    assert "line 299" not in text
    assert len(text.splitlines()) <= SCREEN_LINES


@pytest.mark.parametrize("kind", sorted(every_class(), key=lambda kind: kind.__name__))
def test_every_error_leaves_as_its_exit_code(
    kind: type[RpentBoxError], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as left, border(verbose=False):
        raise kind("what came", hint="what to do")
    assert left.value.exit_code == (2 if issubclass(kind, errors.UsageError) else 1)
    assert "Traceback" not in capsys.readouterr().err


def test_a_message_of_many_lines_is_cut_to_one_screen() -> None:
    text = render_error(RpentBoxError(LONG, hint="look at the log"))
    assert len(text.splitlines()) <= SCREEN_LINES
    assert "(288 more lines)" in text


def test_verbose_shows_the_end_of_the_detail() -> None:
    text = render_error(RpentBoxError("it broke"), detail=LONG, verbose=True)
    assert "line 299" in text
    assert "line 99\n" not in text


def test_verbose_shows_a_traceback_when_the_error_brings_no_detail(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit), border(verbose=True):
        raise errors.OutputError("the folder is gone")
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_defect_of_ours_is_reported_without_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as left, border(verbose=False):
        raise ZeroDivisionError("division by zero")
    text = capsys.readouterr().err
    assert left.value.exit_code == 1
    assert "ZeroDivisionError: division by zero" in text
    assert "Traceback" not in text
    assert "--verbose" in text


def test_json_carries_the_error_as_one_object_on_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit), border(verbose=False, as_json=True):
        raise errors.ImageMissing("no image", hint="rpent-box build mini-wam", detail="lines")
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "error": {
            "code": "image_missing",
            "message": "no image",
            "hint": "rpent-box build mini-wam",
            "detail": "lines",
        }
    }
    assert captured.err.startswith("error: no image\n")


def test_error_as_json_keeps_the_errors_own_detail() -> None:
    error = errors.WorkerFailed("it did not load", detail="a traceback")
    assert json.loads(error_as_json(error))["error"]["detail"] == "a traceback"


def test_ctrl_c_ends_with_a_word_and_130(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as left, border(verbose=True):
        raise KeyboardInterrupt
    assert left.value.exit_code == 130
    text = capsys.readouterr().err
    assert text.startswith("stopped")
    assert "Traceback" not in text


def test_sigterm_unwinds_with_blocks_like_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    undone = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            undone.append(True)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as left, border(verbose=False):
        work()
    assert left.value.code == 128 + signal.SIGTERM
    assert undone == [True]
    assert capsys.readouterr().err.startswith("stopped")
    assert signal.getsignal(signal.SIGTERM) is before


def test_only_usage_errors_exit_with_2() -> None:
    assert exit_code_of(errors.UnknownName("x")) == 2
    assert exit_code_of(errors.BadOption("x")) == 2
    assert exit_code_of(errors.IncompatibleWorker("x")) == 1


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    script = (
        "import sys\n"
        "from rpent_box.cli.border import border\n"
        "sys.stdin.readline()\n"
        "with border(verbose=False):\n"
        "    sys.stdout.write(sys.argv[1] * int(sys.argv[2]))\n"
    )
    for size in ("3", "1000000"):
        process = subprocess.Popen(
            [sys.executable, "-c", script, "x", size],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(b"go\n")
        process.stdin.close()
        process.wait(60)
        assert process.stderr is not None
        said = process.stderr.read().decode()
        process.stderr.close()
        assert "defect" not in said
        assert "BrokenPipeError" not in said


def test_a_full_disk_behind_stdout_is_said_and_is_no_defect() -> None:
    program = (
        "import typer\n"
        "from rpent_box.cli.border import border, print_json\n"
        "try:\n"
        "    with border(verbose=False, as_json=True):\n"
        "        print_json({'a': 1})\n"
        "except typer.Exit as left:\n"
        "    raise SystemExit(left.exit_code)\n"
    )
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True
        )
    said = "error: standard output cannot be written: the disk is full\nnext:  Make room.\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_another_broken_pipe_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as left, border(verbose=False):
        raise BrokenPipeError("to some program")
    assert left.value.exit_code == 1
    assert "BrokenPipeError: to some program" in capfd.readouterr().err
