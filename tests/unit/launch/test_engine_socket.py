# SPDX-License-Identifier: Apache-2.0
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rpent_box.errors import EngineMissing, LaunchError
from rpent_box.launch.choose import choose_launcher
from rpent_box.launch.engine_socket import DEFAULT_SOCKET, check_engine, engine_socket


def test_the_engine_is_looked_for_where_docker_looks(tmp_path: Path) -> None:
    assert engine_socket({}) == DEFAULT_SOCKET
    assert engine_socket({"DOCKER_HOST": "unix:///run/mine.sock"}) == Path("/run/mine.sock")


def test_a_rootless_engine_is_found_where_there_is_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rpent_box.launch.engine_socket.DEFAULT_SOCKET", tmp_path / "none")
    (tmp_path / "docker.sock").touch()
    assert engine_socket({"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "docker.sock"


@pytest.mark.parametrize("host", ["tcp://10.0.0.5:2375", "ssh://me@there"])
def test_an_engine_on_another_machine_is_refused_with_the_reason(host: str) -> None:
    with pytest.raises(EngineMissing, match="must run here") as caught:
        engine_socket({"DOCKER_HOST": host})
    assert "--launcher process" in caught.value.hint


def test_no_socket_says_how_to_get_an_engine_or_do_without(tmp_path: Path) -> None:
    with pytest.raises(EngineMissing, match="there is no Docker engine") as caught:
        check_engine(tmp_path / "docker.sock")
    assert "systemctl start docker" in caught.value.hint
    assert "--launcher process" in caught.value.hint
    assert len(str(caught.value).splitlines()) < 5


def test_a_socket_with_nothing_behind_it_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    with pytest.raises(EngineMissing, match="no Docker engine answers"):
        check_engine(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without permission")
def test_a_socket_that_one_may_not_use_names_the_group(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from rpent_box.launch.engine_socket import check_engine\n"
        "from rpent_box.errors import EngineMissing\n"
        "os.setgroups([]); os.setgid(12345); os.setuid(12345)\n"
        "try: check_engine(Path(sys.argv[1]))\n"
        "except EngineMissing as error: print(error)\n"
    )
    path = Path("/tmp") / f"engine-{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        path.chmod(0o600)
        said = subprocess.run(
            [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60
        )
    path.unlink()
    assert "may not be used by this user" in said.stdout, said.stderr
    assert "usermod -aG docker" in said.stdout


def test_without_an_engine_processes_are_chosen_and_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    launcher, why = choose_launcher("auto")
    assert (launcher.name, launcher.view) == ("process", "host")
    assert "there is no Docker engine" in why
    assert "\n" not in why


def test_an_engine_that_is_too_old_is_done_without_unless_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_old() -> None:
        raise LaunchError("the Docker engine 19.03 is too old")

    monkeypatch.setattr("rpent_box.launch.choose._docker", too_old)
    launcher, why = choose_launcher("auto")
    assert launcher.name == "process"
    assert "too old" in why
    with pytest.raises(LaunchError, match="too old"):
        choose_launcher("docker")


def test_asking_for_containers_without_an_engine_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(EngineMissing):
        choose_launcher("docker")


def test_processes_can_be_asked_for_and_no_engine_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.5:2375")
    launcher, why = choose_launcher("process")
    assert launcher.name == "process"
    assert why == "asked for"


def test_finding_no_engine_does_not_import_its_sdk(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from rpent_box.launch.choose import choose_launcher\n"
        "choose_launcher('auto')\n"
        "print('docker' in sys.modules)"
    )
    environment = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    said = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60
    )
    assert said.stdout == "False\n", said.stderr
