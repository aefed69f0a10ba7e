# SPDX-License-Identifier: Apache-2.0
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tiny_boxes import tiny_program, wait_for

from rpent_box.errors import EnvironmentMissing, LaunchError, OutputError
from rpent_box.launch.box import Box
from rpent_box.launch.marked import marked_processes
from rpent_box.launch.process import ProcessLauncher
from rpent_box.launch.program import Running


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Box.create(tmp_path / "rt") as one:
        yield one


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "tiny.log"


def start(box: Box, log: Path, *arguments: str, **more: object) -> Running:
    running = ProcessLauncher().start(tiny_program(box.id, *arguments, log=log, **more), box)
    if "--exit" not in arguments:
        wait_for(lambda: "ready" in running.last_log_lines(), within_s=20, what="the program")
    return running


def test_a_program_runs_in_its_own_session_with_closed_stdin(box: Box, log: Path) -> None:
    running = start(box, log)
    pid = int(running.identifier)
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert running.exit_status() is None
    assert running.describe() == f"worker tiny (process {pid})"


def test_a_program_inherits_no_open_files(box: Box, log: Path) -> None:
    pid = int(start(box, log).identifier)
    open_files = {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    assert open_files == {"/dev/null", str(log)}


def test_output_goes_to_the_log_and_its_end_can_be_read(box: Box, log: Path) -> None:
    log.parent.mkdir()
    log.write_text("from an earlier run\n")
    running = start(box, log, "--say", "one\ntwo\nready")
    assert running.last_log_lines(2) == "two\nready"
    assert log.read_text() == "from an earlier run\none\ntwo\nready\n"


def test_threads_gpus_and_the_mark_are_in_the_environment(box: Box, log: Path) -> None:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RPENT_BOX_ID")
    running = start(box, log, "--show", *names, "CUDA_VISIBLE_DEVICES", threads=3)
    said = dict(line.split("=", 1) for line in running.last_log_lines().splitlines()[:-1])
    assert {said[name] for name in names[:3]} == {"3"}
    assert said["RPENT_BOX_ID"] == box.id
    assert said["CUDA_VISIBLE_DEVICES"] == ""


def test_what_a_program_writes_to_its_temporary_folder_goes_with_the_box(
    tmp_path: Path, log: Path
) -> None:
    with Box.create(tmp_path / "rt") as box:
        running = start(box, log, "--show", "TMPDIR")
        scratch = Path(running.last_log_lines().splitlines()[0].removeprefix("TMPDIR="))
        assert scratch.parent == box.paths.room
        (scratch / "cache").write_text("of a program that was killed")
    assert not scratch.exists()


def test_defaults_give_way_to_what_is_inherited_and_that_to_what_is_asked_for(
    box: Box, log: Path, tmp_path: Path
) -> None:
    inherited = {"A": "inherited", "B": "inherited", "PYTHONHOME": "/nonexistent"}
    program = tiny_program(
        box.id,
        *("--show", "A", "B", "C", "PYTHONHOME"),
        log=log,
        defaults={"A": "default", "C": "default"},
        environment={"PYTHONPATH": str(Path(__file__).parents[2] / "support/launch"), "B": "asked"},
    )
    running = ProcessLauncher(inherited).start(program, box)
    wait_for(lambda: "ready" in running.last_log_lines(), within_s=20, what="the program")
    lines = running.last_log_lines().splitlines()
    assert lines == ["A=inherited", "B=asked", "C=default", "PYTHONHOME=None", "ready"]


@pytest.mark.parametrize("role", ["simulator", "stage"])
def test_all_but_a_worker_keep_the_gpus_that_they_inherit(box: Box, log: Path, role: str) -> None:
    program = tiny_program(box.id, "--show", "CUDA_VISIBLE_DEVICES", log=log, role=role)
    running = ProcessLauncher({"CUDA_VISIBLE_DEVICES": "3"}).start(program, box)
    wait_for(lambda: "ready" in running.last_log_lines(), within_s=20, what="the program")
    assert "CUDA_VISIBLE_DEVICES=3" in running.last_log_lines()


def test_cores_can_be_chosen(box: Box, log: Path) -> None:
    first = min(os.sched_getaffinity(0))
    running = start(box, log, cpus=(first,))
    assert os.sched_getaffinity(int(running.identifier)) == {first}


def test_cores_that_are_not_ours_are_refused_before_the_start(box: Box, log: Path) -> None:
    with pytest.raises(LaunchError, match="cannot run on the cores"):
        start(box, log, cpus=(9999,))
    assert marked_processes(box.id) == []


def test_the_exit_code_is_reported(box: Box, log: Path) -> None:
    running = start(box, log, "--exit", "3")
    wait_for(running.exit_status, within_s=20, what="the end")
    status = running.exit_status()
    assert status is not None
    assert (status.code, status.signal, status.reason) == (3, None, "exit code 3")


def test_a_kill_is_reported_by_its_signal(box: Box, log: Path) -> None:
    running = start(box, log)
    os.kill(int(running.identifier), 9)
    wait_for(running.exit_status, within_s=5, what="the end")
    status = running.exit_status()
    assert status is not None
    assert status.signal == "SIGKILL"


def test_stopping_is_gentle_at_first_and_may_be_done_twice(box: Box, log: Path) -> None:
    running = start(box, log)
    started = time.monotonic()
    running.stop(grace_s=10)
    assert time.monotonic() - started < 5
    running.stop(grace_s=10)
    status = running.exit_status()
    assert status is not None
    assert status.signal == "SIGTERM"


def test_a_program_that_ignores_sigterm_is_killed_with_all_its_children(
    box: Box, log: Path
) -> None:
    running = start(box, log, "--stubborn", "--children", "2")
    wait_for(lambda: len(marked_processes(box.id)) == 3, within_s=20, what="two children")
    wait_for(lambda: log.read_text().count("ready") == 3, within_s=20, what="stubborn children")
    started = time.monotonic()
    running.stop(grace_s=0.5)
    assert 0.4 < time.monotonic() - started < 5
    status = running.exit_status()
    assert status is not None
    assert status.signal == "SIGKILL"
    box.close()
    assert marked_processes(box.id) == []


def test_stopping_after_the_end_ends_what_the_program_left(box: Box, log: Path) -> None:
    running = start(box, log, "--exit", "0", "--children", "1")
    wait_for(running.exit_status, within_s=20, what="the end")
    box.close()
    assert marked_processes(box.id) == []


def test_a_missing_python_is_an_error_with_the_next_command(box: Box, log: Path) -> None:
    program = tiny_program(box.id, log=log, name="libero", role="simulator")
    broken = msgspec.structs.replace(program, python="/nonexistent/python")
    with pytest.raises(EnvironmentMissing) as caught:
        ProcessLauncher().start(broken, box)
    assert "/nonexistent/python" in caught.value.message
    assert "rpent-box build libero" in caught.value.hint


def test_a_python_that_is_no_program_is_an_error_and_leaves_nothing(
    box: Box, log: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / "python"
    wrong.write_bytes(b"\x7fELF not really")
    wrong.chmod(0o755)
    program = tiny_program(box.id, log=log)
    broken = msgspec.structs.replace(program, python=str(wrong))
    with pytest.raises(LaunchError, match="cannot be started"):
        ProcessLauncher().start(broken, box)
    assert marked_processes(box.id) == []


def test_a_missing_working_directory_is_named(box: Box, log: Path) -> None:
    program = tiny_program(box.id, log=log)
    broken = msgspec.structs.replace(program, root="/nonexistent/root")
    with pytest.raises(LaunchError, match="/nonexistent/root"):
        ProcessLauncher().start(broken, box)


def test_the_working_directory_is_used(box: Box, log: Path, tmp_path: Path) -> None:
    program = tiny_program(box.id, log=log)
    there = msgspec.structs.replace(program, root=str(tmp_path))
    running = ProcessLauncher().start(there, box)
    assert os.readlink(f"/proc/{running.identifier}/cwd") == str(tmp_path)


def test_nothing_is_imported_from_where_the_caller_is(
    box: Box, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "argparse.py").write_text("raise SystemExit('the wrong argparse')\n")
    monkeypatch.chdir(tmp_path)
    running = start(box, log)
    assert os.readlink(f"/proc/{running.identifier}/cwd") == str(log.parent)


def test_a_python_is_found_from_where_the_caller_is(
    box: Box, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tiny_program(box.id, log=log)
    monkeypatch.chdir(Path(program.python).parent.parent)
    relative = msgspec.structs.replace(program, python=f"bin/{Path(program.python).name}")
    running = ProcessLauncher().start(relative, box)
    wait_for(lambda: "ready" in running.last_log_lines(), within_s=20, what="the program")


def test_a_log_that_cannot_be_written_is_an_output_error(box: Box, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        start(box, tmp_path / "file" / "tiny.log")
