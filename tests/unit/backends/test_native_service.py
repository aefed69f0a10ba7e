# SPDX-License-Identifier: Apache-2.0
"""A model's own server as a child: found, watched, and never left behind."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from rpent_box.backends.native_ports import listeners
from rpent_box.backends.native_service import LONGEST_LINE, Listener, NativeService, hold_port
from rpent_box.errors import LaunchError, ProgramDied, StartTimeout

LISTEN = """
import os, signal, socket, sys, time
def listen(port=0, address="127.0.0.1"):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.socket(family)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, port))
    server.listen()
    return server
"""


@pytest.fixture
def start(tmp_path):
    """Start a small Python server; ended with the test."""
    started = []

    def start_one(code, *words, **more):
        script = tmp_path / f"server-{len(started)}.py"
        script.write_text(LISTEN + textwrap.dedent(code))
        server = NativeService.start("toy server", [sys.executable, str(script), *words], **more)
        started.append(server)
        return server

    yield start_one
    for server in started:
        server.close(grace_s=0.1)


def answers(listener: Listener) -> bool:
    try:
        with socket.create_connection((listener.host, listener.port), timeout=1.0):
            return True
    except OSError:
        return False


def need_address(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as trial:
            trial.bind((address, 0))
    except OSError as error:
        pytest.skip(f"this machine has no {address}: {error.strerror}")


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in ("Z", "X")


def wait_until(condition, wait_s=10.0):
    deadline = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def test_its_port_is_read_from_the_kernel(start):
    server = start("s = listen()\nprint(s.getsockname()[1])\ntime.sleep(60)")
    where = server.wait_ready(answers, timeout_s=10.0)
    assert where.address == "127.0.0.1"
    wait_until(lambda: server.last_log_lines() == str(where.port))


def test_the_port_of_a_descendant_counts(start):
    server = start(
        "if os.fork() == 0 and os.fork() == 0:\n s = listen()\n time.sleep(60)\ntime.sleep(60)"
    )
    assert answers(server.wait_ready(answers, timeout_s=10.0))


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
def test_its_address_is_read_as_it_was_bound(start, address):
    need_address(address)
    server = start(f"s = listen(address={address!r})\ntime.sleep(60)")
    where = server.wait_ready(answers, timeout_s=10.0)
    assert where.host == where.address == address.removeprefix("::ffff:")
    assert not where.is_open


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_a_server_that_listens_to_everybody_is_warned_of(start, caplog, address):
    need_address(address)
    server = start(f"s = listen(address={address!r})\ntime.sleep(60)")
    where = server.wait_ready(answers, timeout_s=10.0)
    assert (where.is_open, where.address) == (True, address)
    assert "every address of this machine" in caplog.text


def test_of_several_ports_the_one_that_answers_is_taken(start):
    server = start("a, b = listen(), listen()\nprint(b.getsockname()[1])\ntime.sleep(60)")

    def is_the_second(listener):
        return str(listener.port) == server.last_log_lines()

    where = server.wait_ready(is_the_second, timeout_s=10.0)
    assert len(listeners(server.pid)) == 2
    assert str(where.port) == server.last_log_lines()


def test_a_held_port_is_the_server_s_and_nobody_else_s(start):
    with hold_port() as port:
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", port))
        server = start("other = listen()\ns = listen(int(sys.argv[1]))\ntime.sleep(60)", str(port))
        assert server.wait_ready(answers, timeout_s=10.0, port=port).port == port


def test_another_program_s_port_is_never_taken_for_it(start):
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        server = start("time.sleep(60)")
        with pytest.raises(StartTimeout, match="no port"):
            server.wait_ready(answers, timeout_s=0.3, port=stranger.getsockname()[1])


def test_one_that_dies_at_the_start_is_an_error_at_once(start):
    server = start("print('no such weights', file=sys.stderr)\nsys.exit(3)")
    began = time.monotonic()
    with pytest.raises(ProgramDied, match="ended with exit code 3") as caught:
        server.wait_ready(answers, timeout_s=60.0)
    assert time.monotonic() - began < 10.0
    assert "no such weights" in caught.value.detail


def test_one_that_cannot_be_started_says_so():
    with NativeService.start("toy server", ["/no/such/program"]) as server:
        with pytest.raises(ProgramDied, match="exit code 127") as caught:
            server.wait_ready(answers, timeout_s=60.0)
        assert "/no/such/program cannot be started: No such file" in caught.value.detail


def test_a_working_directory_that_is_not_there_says_so():
    with pytest.raises(LaunchError, match="cannot be started in /no/such/folder"):
        NativeService.start("toy server", ["true"], root=Path("/no/such/folder"))


def test_one_that_never_listens_is_a_timeout_with_its_last_lines(start):
    server = start("print('loading for ever')\ntime.sleep(60)")
    wait_until(lambda: server.last_log_lines())
    with pytest.raises(StartTimeout, match="after 0.3 s the toy server is loading") as caught:
        server.wait_ready(answers, timeout_s=0.3)
    assert "It listens on no port" in caught.value.hint
    assert caught.value.detail == "loading for ever"


def test_one_that_listens_and_never_answers_is_a_timeout_that_says_where(start):
    server = start("s = listen()\ntime.sleep(60)")
    wait_until(lambda: listeners(server.pid))
    with pytest.raises(StartTimeout, match="does not answer yet") as caught:
        server.wait_ready(lambda _: False, timeout_s=0.3)
    assert "It listens on 127.0.0.1:" in caught.value.hint


def test_one_that_dies_later_is_noticed_when_asked(start):
    server = start("s = listen()\ns.accept()\nprint('out of memory')\nos.kill(os.getpid(), 9)")
    server.wait_ready(answers, timeout_s=10.0)

    wait_until(lambda: not _lives(server))
    with pytest.raises(ProgramDied, match="was killed by SIGKILL") as caught:
        server.require_alive()
    assert "out of memory" in caught.value.detail


def _lives(server):
    try:
        server.require_alive()
    except ProgramDied:
        return False
    return True


def test_one_that_a_nameless_signal_ended_is_told_by_its_number(start):
    server = start("os.kill(os.getpid(), signal.SIGRTMIN + 3)\ntime.sleep(60)")
    with pytest.raises(ProgramDied, match=rf"was killed by signal {signal.SIGRTMIN + 3}"):
        server.wait_ready(answers, timeout_s=10.0)


def test_a_worker_that_ignores_its_children_s_ends_notices_them_all_the_same():
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "from rpent_box.backends.native_service import NativeService\n"
        "from rpent_box.errors import ProgramDied\n"
        "with NativeService.start('toy', [sys.executable, '-c', 'print(1)']) as server:\n"
        "    try:\n"
        "        server.wait_ready(lambda _: False, timeout_s=10.0)\n"
        "    except ProgramDied as error:\n"
        "        print(error.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60.0, check=False
    )
    assert (done.stdout, done.returncode) == ("the toy has ended\n", 0), done.stderr


def test_a_line_without_an_end_is_kept_in_pieces(start):
    server = start("print('x' * 100_000, end='', flush=True)\ntime.sleep(60)")
    wait_until(lambda: len(server.last_log_lines().split("\n")) == 100_000 // LONGEST_LINE)
    assert {len(line) for line in server.last_log_lines().split("\n")} == {LONGEST_LINE}


def test_phases_are_told_once_each_with_the_last_line(start):
    server = start("print('reading weights')\ntime.sleep(0.3)\ns = listen()\ntime.sleep(60)")
    told = []
    server.wait_ready(answers, timeout_s=10.0, say=told.append)
    assert "the toy server is loading: reading weights" in told
    assert len(told) == len(set(told))


def test_its_lines_go_to_our_log(start, caplog):
    caplog.set_level(logging.INFO)
    server = start("print('a line')\nprint('b\\xe9', file=sys.stderr)")
    wait_until(lambda: "a line" in caplog.text and "bé" in caplog.text)
    assert "toy server: a line" in caplog.text
    server.close()


def test_of_a_progress_bar_the_last_state_is_kept(start):
    server = start("print('0%\\r50%\\r100%')")
    wait_until(lambda: server.last_log_lines())
    assert server.last_log_lines() == "100%"


def test_it_gets_our_environment_and_what_is_added(start):
    server = start(
        "print(os.environ['TOY'], os.environ['PATH'] == sys.argv[1])\nprint(os.getcwd())",
        os.environ["PATH"],
        environment={"TOY": "x"},
        root=Path("/"),
    )
    wait_until(lambda: server.last_log_lines().count("\n") == 1)
    assert server.last_log_lines() == "x True\n/"


def test_close_asks_first(start):
    server = start(
        "signal.signal(signal.SIGTERM, lambda *_: (print('goodbye'), sys.exit(0)))\n"
        "s = listen()\ntime.sleep(60)"
    )
    server.wait_ready(answers, timeout_s=10.0)
    server.close()
    assert server.last_log_lines() == "goodbye"
    assert is_gone(server.pid)
    server.close()
    with pytest.raises(ProgramDied):
        server.require_alive()


def test_close_kills_what_does_not_listen(start):
    server = start("signal.signal(signal.SIGTERM, signal.SIG_IGN)\ns = listen()\ntime.sleep(60)")
    server.wait_ready(answers, timeout_s=10.0)
    began = time.monotonic()
    server.close(grace_s=0.2)
    assert 0.2 <= time.monotonic() - began < 5.0
    assert is_gone(server.pid)


def test_close_ends_its_children_too(start):
    server = start(
        "child = os.fork()\n"
        "if child == 0:\n signal.signal(signal.SIGTERM, signal.SIG_IGN)\n time.sleep(60)\n"
        "print(child)\ns = listen()\ntime.sleep(60)"
    )
    server.wait_ready(answers, timeout_s=10.0)
    wait_until(lambda: server.last_log_lines())
    child = int(server.last_log_lines())
    assert not is_gone(child)
    server.close()
    wait_until(lambda: is_gone(child))


def test_orphans_of_a_dead_server_are_ended(start):
    server = start("child = os.fork()\nif child == 0:\n time.sleep(60)\nprint(child)\nos._exit(1)")
    with pytest.raises(ProgramDied):
        server.wait_ready(answers, timeout_s=10.0)
    child = int(server.last_log_lines())
    assert not is_gone(child)
    server.close()
    wait_until(lambda: is_gone(child))


def test_the_block_closes_it_also_after_an_error():
    code = "import time; time.sleep(60)"
    with (
        pytest.raises(KeyError),
        NativeService.start("toy server", [sys.executable, "-c", code]) as server,
    ):
        raise KeyError
    assert is_gone(server.pid)


def test_it_dies_with_a_worker_that_is_killed():
    code = (
        "import sys, time\n"
        "from rpent_box.backends.native_service import NativeService\n"
        "server = NativeService.start('toy', [sys.executable, '-c', 'import time; "
        "print(1, flush=True); time.sleep(60)'])\n"
        "while not server.last_log_lines(): time.sleep(0.02)\n"
        "print(server.pid, flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        pid = int(worker.stdout.readline())
        assert not is_gone(pid)
        worker.send_signal(signal.SIGKILL)
        worker.wait(10.0)
        wait_until(lambda: is_gone(pid))


def test_it_dies_with_a_worker_that_leaves_its_inferring_thread_behind():
    code = (
        "import sys, threading, time\n"
        "from rpent_box.backends.native_service import NativeService\n"
        "started = []\n"
        "def infer():\n"
        "    sleep = [sys.executable, '-c', 'import time; print(1, flush=True); time.sleep(60)']\n"
        "    started.append(NativeService.start('toy', sleep))\n"
        "    time.sleep(60)\n"
        "threading.Thread(target=infer, daemon=True).start()\n"
        "while not started or not started[0].last_log_lines(): time.sleep(0.02)\n"
        "print(started[0].pid, flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60.0, check=True
    )
    wait_until(lambda: is_gone(int(done.stdout)))


def test_a_terminal_s_interrupt_spares_it(start):
    server = start("s = listen()\ntime.sleep(60)")
    server.wait_ready(answers, timeout_s=10.0)
    assert os.getpgid(server.pid) == server.pid != os.getpgid(0)
    assert os.getsid(server.pid) == os.getsid(0)
