# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from tiny_boxes import tiny_program

from rpent_box.errors import ProgramDied
from rpent_box.launch.program import ExitStatus, Program, require_alive, status_from_code
from rpent_box.launch.records import ProgramRecord


class Ended:
    """A `Running` whose end is given."""

    def __init__(self, program: Program, status: ExitStatus | None, log: str) -> None:
        self.program = program
        self.identifier = "4711"
        self._status = status
        self._log = log

    def describe(self) -> str:
        return f"{self.program.role} {self.program.name} (process 4711)"

    def record(self) -> ProgramRecord:
        raise NotImplementedError

    def exit_status(self) -> ExitStatus | None:
        return self._status

    def last_log_lines(self, count: int = 20) -> str:
        return "\n".join(self._log.splitlines()[-count:])

    def stop(self, *, grace_s: float) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("code", "signal", "words"),
    [
        (0, None, "exit code 0"),
        (3, None, "exit code 3"),
        (-9, "SIGKILL", "killed by SIGKILL"),
        (137, "SIGKILL", "memory runs out"),
        (-7, "SIGBUS", "shared memory or a disk is full"),
        (139, "SIGSEGV", "killed by SIGSEGV"),
        (255, None, "exit code 255"),
    ],
)
def test_a_return_code_is_read_as_a_shell_reads_it(
    code: int, signal: str | None, words: str
) -> None:
    status = status_from_code(code)
    assert status.signal == signal
    assert words in status.reason


def test_a_signal_has_one_code_whoever_reports_it() -> None:
    assert status_from_code(-9) == status_from_code(137)
    assert status_from_code(-9).code == 137


def test_living_programs_pass(tmp_path: Path) -> None:
    living = Ended(tiny_program(log=tmp_path / "log"), None, "")
    require_alive(living, living)


def test_the_error_says_which_program_died_how_and_what_it_said_last(tmp_path: Path) -> None:
    log = "\n".join(f"line {number}" for number in range(100))
    living = Ended(tiny_program(log=tmp_path / "log"), None, "")
    program = tiny_program(log=tmp_path / "dead.log", role="simulator", name="libero")
    dead = Ended(program, status_from_code(-9), log)
    with pytest.raises(ProgramDied) as caught:
        require_alive(living, dead)
    error = caught.value
    assert "simulator libero (process 4711) has ended: killed by SIGKILL" in error.message
    assert "line 99" in error.message
    assert "line 90" not in error.message
    assert "line 90" in error.detail
    assert str(tmp_path / "dead.log") in error.hint
    assert len(str(error).splitlines()) < 12


def test_a_program_that_said_nothing_is_said_to_have_said_nothing(tmp_path: Path) -> None:
    dead = Ended(tiny_program(log=tmp_path / "log"), status_from_code(1), "")
    with pytest.raises(ProgramDied, match="It said nothing"):
        require_alive(dead)
