# SPDX-License-Identifier: Apache-2.0
"""kill -9, in each launcher: afterwards nothing is left, and what died is said."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct
from tiny_boxes import (
    SUPPORT,
    containers,
    docker_words,
    in_container,
    leftovers,
    tiny_program,
    wait_for,
    why_no_docker,
)

from rpent_box.errors import ProgramDied
from rpent_box.launch.box import Box
from rpent_box.launch.choose import choose_launcher
from rpent_box.launch.marked import is_alive
from rpent_box.launch.program import Running, require_alive
from rpent_box.launch.sweep import sweep
from rpent_box.transport.paths import BoxPaths

WITHIN_S = 20.0
"""How soon everything must have gone."""
START_S = 90.0

LAUNCHERS = [pytest.param("process"), pytest.param("docker", marks=pytest.mark.docker)]


@pytest.fixture(autouse=True)
def _engine(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("docker") and (why := why_no_docker()):
        pytest.skip(why)


class Owner(Struct, frozen=True):
    """Another process that owns a box with two programs, one of which has a segment."""

    process: subprocess.Popen[bytes]
    paths: BoxPaths
    programs: list[str]


@pytest.fixture
def start_owner(tmp_path: Path) -> Iterator[object]:
    owners: list[Owner] = []

    def start(launcher: str, *words: str) -> Owner:
        process = subprocess.Popen(
            [sys.executable, "-m", "tiny_owner", launcher, str(tmp_path), *words],
            env={**os.environ, "PYTHONPATH": str(SUPPORT)},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        paths = BoxPaths.on_host(said["box"], runtime_dir=tmp_path / "rt")
        owners.append(Owner(process, paths, said["programs"]))
        return owners[-1]

    yield start
    for owner in owners:
        owner.process.kill()
        owner.process.wait()
        sweep(tmp_path / "rt", containers=True)


def require_whole(owner: Owner, *, docker: bool) -> None:
    """Check that there is something to clean: a test of nothing would always pass."""
    found = " ".join(leftovers(owner.paths, docker=docker))
    wanted = ["reaper", str(owner.paths.room), str(owner.paths.grants), "simulator-1"]
    wanted += ["container"] if docker else ["process"]
    assert all(word in found for word in wanted), found
    assert (owner.paths.sockets / "simulator.sock").exists()


@pytest.mark.parametrize("words", [(), ("--stubborn",)], ids=["plain", "ignoring-everything"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_nothing_is_left_of_a_killed_owner(
    launcher: str, words: tuple[str, ...], start_owner: object
) -> None:
    assert callable(start_owner)
    owner = start_owner(launcher, *words)
    docker = launcher == "docker"
    require_whole(owner, docker=docker)
    owner.process.kill()
    owner.process.wait()
    wait_for(
        lambda: not leftovers(owner.paths, docker=docker),
        within_s=WITHIN_S,
        what="an empty machine",
    )


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_an_owner_killed_with_its_reaper_is_cleaned_up_after_at_the_next_start(
    launcher: str, start_owner: object, tmp_path: Path
) -> None:
    assert callable(start_owner)
    owner = start_owner(launcher, "--stubborn")
    docker = launcher == "docker"
    require_whole(owner, docker=docker)
    (reaper,) = [line for line in leftovers(owner.paths) if line.startswith("reaper")]
    os.kill(int(reaper.split()[1]), signal.SIGKILL)
    owner.process.kill()
    owner.process.wait()
    with Box.create(tmp_path / "rt"):
        assert leftovers(owner.paths, docker=docker) == []


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_terminated_owner_leaves_nothing_either(launcher: str, start_owner: object) -> None:
    assert callable(start_owner)
    owner = start_owner(launcher)
    owner.process.terminate()
    owner.process.wait()
    wait_for(
        lambda: not leftovers(owner.paths, docker=launcher == "docker"),
        within_s=WITHIN_S,
        what="an empty machine",
    )


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_killed_program_is_named_with_its_last_words_and_nothing_is_left(
    launcher: str, tmp_path: Path
) -> None:
    started, _ = choose_launcher("docker" if launcher == "docker" else "process")
    docker = launcher == "docker"
    with Box.create(tmp_path / "rt") as box:
        extra = in_container(box.paths, grants_read_only=True) if docker else {}
        program = tiny_program(
            box.id, "--say", "loading weights\nready", log=tmp_path / "log", **extra
        )
        running = started.start(program, box)
        wait_for(lambda: "ready" in running.last_log_lines(), within_s=START_S, what="the program")
        require_alive(running)
        if docker:
            docker_words("kill", "--signal", "KILL", running.identifier)
        else:
            os.kill(int(running.identifier), signal.SIGKILL)
        wait_for(running.exit_status, within_s=WITHIN_S, what="notice of the end")
        with pytest.raises(ProgramDied, match="killed by SIGKILL") as caught:
            require_alive(running)
        assert "worker tiny" in caught.value.message
        assert "loading weights" in caught.value.message
        assert str(tmp_path / "log") in caught.value.hint
        assert len(str(caught.value).splitlines()) < 12
    assert leftovers(box.paths, docker=docker) == []


@pytest.mark.docker
def test_a_process_killed_inside_its_container_is_noticed(tmp_path: Path) -> None:
    launcher, _ = choose_launcher("docker")
    with Box.create(tmp_path / "rt") as box:
        extra = in_container(box.paths, grants_read_only=True)
        running = launcher.start(tiny_program(box.id, log=tmp_path / "log", **extra), box)
        wait_for(lambda: "ready" in running.last_log_lines(), within_s=START_S, what="the program")
        # The program proper, as the host sees it: a child of the container's init.
        (_, *pids) = docker_words("top", running.identifier, "-o", "pid")
        os.kill(max(map(int, pids)), signal.SIGKILL)
        wait_for(running.exit_status, within_s=WITHIN_S, what="notice of the end")
        status = running.exit_status()
        assert status is not None
        assert status.signal == "SIGKILL"
    assert leftovers(box.paths, docker=True) == []


@pytest.mark.docker
def test_a_container_removed_by_hand_is_noticed_and_closing_still_works(tmp_path: Path) -> None:
    launcher, _ = choose_launcher("docker")
    with Box.create(tmp_path / "rt") as box:
        extra = in_container(box.paths, grants_read_only=True)
        running = launcher.start(tiny_program(box.id, log=tmp_path / "log", **extra), box)
        docker_words("rm", "--force", running.identifier)
        with pytest.raises(ProgramDied, match="removed by someone else"):
            require_alive(running)
    assert leftovers(box.paths, docker=True) == []


@pytest.mark.docker
def test_a_container_whose_start_was_interrupted_goes_with_its_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, _ = choose_launcher("docker")

    def interrupted(self: Box, running: Running) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Box, "record", interrupted)

    def start() -> None:
        with Box.create(tmp_path / "rt") as box:
            boxes.append(box)
            extra = in_container(box.paths, grants_read_only=True)
            launcher.start(tiny_program(box.id, log=tmp_path / "log", **extra), box)

    boxes: list[Box] = []
    with pytest.raises(KeyboardInterrupt):
        start()
    assert leftovers(boxes[0].paths, docker=True) == []


@pytest.mark.docker
def test_containers_of_living_boxes_survive_a_sweep_and_lost_ones_do_not(
    tmp_path: Path, start_owner: object
) -> None:
    assert callable(start_owner)
    owner = start_owner("docker", "--stubborn")
    with Box.create(tmp_path / "other") as box:
        launcher, _ = choose_launcher("docker")
        extra = in_container(box.paths, grants_read_only=True)
        running = launcher.start(tiny_program(box.id, log=tmp_path / "log", **extra), box)
        report = sweep(tmp_path / "other", containers=True)
        assert report.programs == ()
        assert running.exit_status() is None
        assert len(containers(owner.paths.box)) == 2

        # The owner, its reaper and every file of its box disappear; only containers are left.
        (reaper,) = [line for line in leftovers(owner.paths) if line.startswith("reaper")]
        os.kill(int(reaper.split()[1]), signal.SIGKILL)
        owner.process.kill()
        owner.process.wait()
        for path in (owner.paths.room, owner.paths.grants, owner.paths.results):
            subprocess.run(["rm", "-r", str(path)], check=True)
        report = sweep(tmp_path / "other", containers=True)
        assert len([one for one in report.programs if owner.paths.box in one]) == 2
        assert containers(owner.paths.box) == []
        assert running.exit_status() is None
    assert leftovers(box.paths, docker=True) == []


def test_a_killed_owners_programs_have_really_ended(start_owner: object) -> None:
    assert callable(start_owner)
    owner = start_owner("process")
    pids = [int(one) for one in owner.programs]
    assert all(map(is_alive, pids))
    owner.process.kill()
    owner.process.wait()
    wait_for(lambda: not any(map(is_alive, pids)), within_s=WITHIN_S, what="the programs' end")
