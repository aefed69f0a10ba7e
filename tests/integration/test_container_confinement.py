# SPDX-License-Identifier: Apache-2.0
"""What a worker's container may do: read back from the engine, and tried from within."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rpent_box_toy.backend import BACKEND
from rpent_box_toy.platform import PLATFORM
from tiny_boxes import (
    CONTAINER_SUPPORT,
    IMAGE,
    SUPPORT,
    docker_words,
    leftovers,
    tiny_program,
    wait_for,
    why_no_docker,
)

from rpent_box.errors import ImageMissing, LaunchError
from rpent_box.launch.box import Box
from rpent_box.launch.choose import choose_launcher
from rpent_box.launch.docker import DockerLauncher
from rpent_box.launch.gpus import ALL_GPUS, installed_gpus
from rpent_box.launch.program import Launcher, Mount, Program
from rpent_box.launch.simulator import simulator_program
from rpent_box.launch.worker import worker_program
from rpent_box.transport.paths import BoxPaths
from rpent_box.transport.segment import Segment
from rpent_box.worker.needs import Needs

pytestmark = pytest.mark.docker
START_S = 90.0
PROBED = (
    *("/", "/etc", "/opt", "/run/rpent-box", "/tmp", "/dev/shm"),
    *("/run/rpent-box/sockets", "/run/rpent-box/results", "/run/rpent-box/output"),
)


@pytest.fixture(autouse=True, scope="module")
def _engine() -> None:
    if why := why_no_docker():
        pytest.skip(why)


@pytest.fixture
def launcher() -> Launcher:
    found, _ = choose_launcher("docker")
    return found


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Box.create(tmp_path / "rt") as one:
        yield one
    assert leftovers(one.paths, docker=True) == []


def probing(program: Program) -> Program:
    """Return `program` with the same confinement, but saying what it may do."""
    return msgspec.structs.replace(
        program,
        module="tiny_probe",
        arguments=("probe", *PROBED),
        environment={"PYTHONPATH": CONTAINER_SUPPORT},
        mounts=(*program.mounts, Mount(str(SUPPORT), CONTAINER_SUPPORT)),
    )


def worker(box: Box, launcher: Launcher, tmp_path: Path) -> Program:
    return worker_program(
        BACKEND,
        launcher,
        box,
        needs=Needs(device="cpu"),
        checkpoint=None,
        platform="toy",
        options=(),
        python=sys.executable,
        root=None,
        cuda_device=None,
        threads=1,
        log=str(tmp_path / "worker.log"),
        image=IMAGE,
    )


def simulator(box: Box, launcher: Launcher, tmp_path: Path) -> Program:
    (tmp_path / "run").mkdir()
    return simulator_program(
        PLATFORM,
        launcher,
        box,
        options=(),
        output_dir=tmp_path / "run",
        threads=1,
        log=str(tmp_path / "simulator.log"),
        python=sys.executable,
        image=IMAGE,
    )


def start_probe(program: Program, box: Box, launcher: Launcher) -> tuple[str, dict[str, Any]]:
    """Start `program` as a probe; return its container's id and what it may do."""
    running = launcher.start(probing(program), box)
    wait_for(lambda: "uid" in running.last_log_lines(), within_s=START_S, what="the probe")
    found: dict[str, Any] = json.loads(running.last_log_lines(1))
    return running.identifier, found


def inspect(container: str) -> dict[str, Any]:
    answer = subprocess.run(["docker", "inspect", container], capture_output=True, timeout=60)
    (found,) = json.loads(answer.stdout)
    assert isinstance(found, dict)
    return found


def test_the_engine_says_that_a_worker_is_confined(
    box: Box, launcher: Launcher, tmp_path: Path
) -> None:
    container, _ = start_probe(worker(box, launcher, tmp_path), box, launcher)
    told = inspect(container)
    host = told["HostConfig"]
    assert told["Config"]["User"] == f"{os.getuid()}:{os.getgid()}"
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["ReadonlyRootfs"] is True
    assert host["NetworkMode"] == "none"
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Privileged"] is False
    assert host["Init"] is True
    assert host["IpcMode"] == "private"
    assert host["PidsLimit"] > 0
    assert set(host["Tmpfs"]) == {"/tmp"}
    assert host["AutoRemove"] is False
    assert told["Config"]["Labels"]["rpent-box.box"] == box.id
    assert told["Config"]["Labels"]["rpent-box.role"] == "worker"
    assert told["Config"]["Labels"]["rpent-box.owner"] == str(os.getuid())
    mounts = {one["Destination"]: (one["Source"], one["RW"]) for one in told["Mounts"]}
    del mounts[CONTAINER_SUPPORT]
    assert mounts == {
        "/dev/shm": (str(box.paths.grants), False),
        "/run/rpent-box/sockets": (str(box.paths.sockets), True),
        "/run/rpent-box/lease": (str(box.paths.lease), False),
        "/run/rpent-box/results": (str(box.paths.results), True),
    }


def test_a_worker_finds_itself_confined(box: Box, launcher: Launcher, tmp_path: Path) -> None:
    _, found = start_probe(worker(box, launcher, tmp_path), box, launcher)
    assert (found["uid"], found["gid"]) == (os.getuid(), os.getgid())
    assert int(found["capabilities"], 16) == 0
    assert int(found["bounding"], 16) == 0
    assert found["no_new_privileges"] == "1"
    assert found["interfaces"] == ["lo"]
    assert found["writable"] == ["/tmp", "/run/rpent-box/sockets", "/run/rpent-box/results"]
    assert found["init"] in ("docker-init", "tini", "init")
    assert found["home"] == "/tmp"


def test_a_simulator_may_write_frames_and_output_and_nothing_else(
    box: Box, launcher: Launcher, tmp_path: Path
) -> None:
    _, found = start_probe(simulator(box, launcher, tmp_path), box, launcher)
    assert found["writable"] == [
        *("/tmp", "/dev/shm", "/run/rpent-box/sockets", "/run/rpent-box/output"),
    ]
    assert found["interfaces"] == ["lo"]
    assert int(found["capabilities"], 16) == 0


def test_a_worker_sees_segments_made_after_its_start_and_only_its_own_boxs(
    box: Box, launcher: Launcher, tmp_path: Path
) -> None:
    container, _ = start_probe(worker(box, launcher, tmp_path), box, launcher)
    assert docker_words("exec", container, "ls", "/dev/shm") == []
    with Segment.create(box.paths.segment_name("late"), 4096, grants=box.paths.grants):
        assert docker_words("exec", container, "ls", "/dev/shm") == [f"rpent-box.{box.id}.late"]
    assert docker_words("exec", container, "ls", "/dev/shm") == []


def test_what_a_simulator_writes_belongs_to_the_caller(
    box: Box, launcher: Launcher, tmp_path: Path
) -> None:
    container, _ = start_probe(simulator(box, launcher, tmp_path), box, launcher)
    docker_words("exec", container, "touch", "/run/rpent-box/output/result")
    assert (tmp_path / "run" / "result").stat().st_uid == os.getuid()


def test_a_missing_image_is_an_error_with_the_next_command(
    box: Box, launcher: Launcher, tmp_path: Path
) -> None:
    program = msgspec.structs.replace(
        worker(box, launcher, tmp_path), image="rpent-box/never-built:0"
    )
    with pytest.raises(ImageMissing, match="rpent-box/never-built:0") as caught:
        launcher.start(program, box)
    assert "rpent-box build" in caught.value.hint
    assert len(str(caught.value).splitlines()) < 5


def test_a_start_that_the_engine_refuses_leaves_no_container(
    box: Box, launcher: Launcher, tmp_path: Path
) -> None:
    program = worker(box, launcher, tmp_path)
    broken = msgspec.structs.replace(
        program, mounts=(*program.mounts, Mount("/nonexistent/folder", "/missing"))
    )
    with pytest.raises(LaunchError, match="/nonexistent/folder") as caught:
        launcher.start(broken, box)
    assert len(str(caught.value).splitlines()) < 5


@pytest.mark.skipif(bool(installed_gpus()), reason="this machine has a GPU")
def test_a_gpu_that_the_engine_cannot_give_is_an_error_with_the_next_command(
    box: Box, launcher: Launcher, tmp_path: Path
) -> None:
    program = msgspec.structs.replace(worker(box, launcher, tmp_path), gpus=ALL_GPUS)
    with pytest.raises(LaunchError, match="NVIDIA Container Toolkit") as caught:
        launcher.start(program, box)
    assert "nvidia-ctk" in caught.value.hint
    assert len(str(caught.value).splitlines()) < 5
    with pytest.raises(LaunchError, match="there is no GPU 7 here"):
        launcher.start(msgspec.structs.replace(program, gpus=("7",)), box)


def test_all_that_a_short_program_says_is_in_its_log(
    box: Box, launcher: Launcher, tmp_path: Path
) -> None:
    said = "\n".join(f"line {number}" for number in range(500))
    program = tiny_program(
        box.id,
        *("--exit", "3", "--say", said),
        log=tmp_path / "log",
        environment={"PYTHONPATH": CONTAINER_SUPPORT},
        mounts=(Mount(str(SUPPORT), CONTAINER_SUPPORT),),
    )
    running = launcher.start(program, box)
    wait_for(running.exit_status, within_s=START_S, what="its end")
    status = running.exit_status()
    assert status is not None
    assert (status.code, status.reason) == (3, "exit code 3")
    assert running.last_log_lines(2) == "line 498\nline 499"
    assert (tmp_path / "log").read_text() == said + "\n"


def test_auto_chooses_containers_and_says_why() -> None:
    launcher, why = choose_launcher("auto")
    assert isinstance(launcher, DockerLauncher)
    assert why.startswith("Docker ")


def _another_user_can_run_this(uid: int) -> bool:
    script = "import docker, msgspec, posix_ipc, rpent_box, tiny_owner"
    tried = subprocess.run(
        ["/usr/bin/python3", "-c", script],
        user=uid,
        group=uid,
        env=_environment(),
        cwd="/",
        capture_output=True,
        timeout=60,
    )
    return tried.returncode == 0


def _environment() -> dict[str, str]:
    import docker

    site = Path(docker.__file__).parents[1]
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{SUPPORT}:{Path.cwd()}:{site}"}


def _of_user(uid: int, paths: BoxPaths) -> BoxPaths:
    root = Path(f"/dev/shm/rpent-box.d-{uid}")
    return msgspec.structs.replace(
        paths, grants=root / paths.grants.name, results=root / paths.results.name
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_users_containers_run_as_that_user() -> None:
    if not _another_user_can_run_this(12345):
        pytest.skip("another user's /usr/bin/python3 cannot import this checkout and its packages")
    directory = Path("/tmp") / f"rpent-box-test-{os.getpid()}"
    directory.mkdir()
    os.chown(directory, 12345, 12345)
    owner = subprocess.Popen(
        ["/usr/bin/python3", "-m", "tiny_owner", "docker", str(directory)],
        user=12345,
        group=12345,
        extra_groups=[os.stat("/var/run/docker.sock").st_gid],
        env=_environment(),
        cwd="/tmp",
        stdout=subprocess.PIPE,
    )
    try:
        assert owner.stdout is not None
        said = json.loads(owner.stdout.readline())
        paths = _of_user(12345, BoxPaths.on_host(said["box"], runtime_dir=directory / "rt"))
        for container in said["programs"]:
            assert inspect(container)["Config"]["User"] == "12345:12345"
        (segment,) = paths.grants.iterdir()
        assert segment.stat().st_uid == 12345
    finally:
        owner.kill()
        owner.wait()
    wait_for(lambda: not leftovers(paths, docker=True), within_s=20, what="an empty machine")
    subprocess.run(["rm", "-r", str(directory)], check=True)
    assert not paths.grants.parent.exists()
