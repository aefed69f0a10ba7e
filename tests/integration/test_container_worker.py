# SPDX-License-Identifier: Apache-2.0
"""A standalone worker and a run that borrows it, each in its own program, whichever way."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pytest
from msgspec import Struct
from rpent_box_toy.backend import BACKEND
from rpent_box_toy.platform import PLATFORM
from rpent_box_toy.running import ENTRY_POINTS, PACKAGE, register_toy
from tiny_boxes import IMAGE, leftovers, why_no_docker

import rpent_box
from rpent_box.contracts.control_messages import ConnectWorker, EpisodePlayed, PlayEpisode
from rpent_box.errors import ProgramDied
from rpent_box.launch.box import Box
from rpent_box.launch.choose import choose_launcher
from rpent_box.launch.place import WorkerPlace
from rpent_box.launch.program import Launcher, Mount, Program, Running, require_alive
from rpent_box.launch.simulator import simulator_output_dir, simulator_program
from rpent_box.launch.standalone import StandaloneWorker, standalone_worker
from rpent_box.launch.worker import wait_ready
from rpent_box.sim.client import SimClient
from rpent_box.worker.needs import Needs

START_S = 240.0
SOURCE = Path(rpent_box.__file__).parent


class WithToy(Struct, frozen=True):
    """A launcher whose containers find the toy, and this very version of rpent_box."""

    real: Launcher

    @property
    def name(self) -> Literal["docker", "process"]:
        return self.real.name

    @property
    def view(self) -> Literal["container", "host"]:
        return self.real.view

    def check(self, program: Program) -> None:
        self.real.check(_with_toy(program) if self.view == "container" else program)

    def sees_gpus(self) -> bool:
        return self.real.sees_gpus()

    def start(self, program: Program, box: Box) -> Running:
        return self.real.start(_with_toy(program) if self.view == "container" else program, box)


def _with_toy(program: Program) -> Program:
    lent = (
        Mount(str(SOURCE), "/lent/rpent_box"),
        Mount(str(PACKAGE), "/toy"),
    )
    path = f"/lent:/toy:/toy/{ENTRY_POINTS.name}"
    return msgspec.structs.replace(
        program,
        mounts=(*program.mounts, *lent),
        environment={**program.environment, "PYTHONPATH": path},
    )


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.docker)])
def launcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> WithToy:
    if request.param == "docker" and (why := why_no_docker()):
        pytest.skip(why)
    register_toy(monkeypatch)
    return WithToy(choose_launcher(request.param)[0])


@pytest.fixture
def phases() -> list[str]:
    return []


def serve_toy(
    launcher: WithToy,
    folder: Path,
    *options: str,
    say: Callable[[str], None] = lambda _: None,
    listen: str | None = None,
) -> AbstractContextManager[StandaloneWorker]:
    return standalone_worker(
        BACKEND,
        launcher,
        needs=Needs(device="cpu"),
        checkpoint=None,
        platform="toy",
        options=options,
        python=sys.executable,
        root=None,
        cuda_device=None,
        threads=1,
        log=str(folder / "worker.log"),
        image=IMAGE,
        start_timeout_s=START_S,
        say=say,
        listen=listen,
        runtime_dir=folder / "a",
    )


@pytest.fixture
def served(launcher: WithToy, tmp_path: Path, phases: list[str]) -> Iterator[StandaloneWorker]:
    with serve_toy(launcher, tmp_path, say=phases.append) as worker:
        yield worker


def play(
    launcher: WithToy, place: WorkerPlace, box: Box, output: Path, *, result_rings: int = 0
) -> EpisodePlayed:
    """Start a simulator in `box`, connect it to `place`, and play one episode."""
    (output / "episode").mkdir(parents=True)
    program = simulator_program(
        PLATFORM,
        launcher,
        box,
        options=(),
        output_dir=output,
        threads=1,
        log=str(output / "simulator.log"),
        python=sys.executable,
        image=IMAGE,
        worker=place,
    )
    running = launcher.start(program, box)
    with SimClient(box.paths.sim_endpoint(0), watch=lambda: require_alive(running)) as simulator:
        simulator.wait_ready(timeout_s=START_S)
        connect = ConnectWorker(endpoint=place.endpoint_for(launcher.view), box=place.box)
        connected = simulator.connect_worker(connect, timeout_s=60)
        assert connected.meta.backend == "toy"
        seen = simulator_output_dir(launcher, output)
        episode = PlayEpisode(
            suite="toy_easy",
            task=0,
            init_state=0,
            episode=0,
            seed=7,
            max_steps=40,
            output_dir=f"{seen}/episode",
        )
        played = simulator.play(episode, lambda _: None, timeout_s=120, stall_timeout_s=120)
        assert place.paths is not None
        rings = [path.name for path in place.paths.grants.iterdir()]
        assert len(rings) == 1, f"frames did not go through shared memory: {rings}"
        results = [path.name for path in place.paths.results.iterdir()]
        assert len(results) == result_rings, f"rings of results: {results}"
        simulator.shut_down()
    return played


def test_a_standalone_worker_is_borrowed_twice_and_outlives_both_runs(
    launcher: WithToy, served: StandaloneWorker, phases: list[str], tmp_path: Path
) -> None:
    assert phases[0] == "starting"
    assert phases[-1] == "ready"
    results = []
    for number in range(2):
        with Box.create(tmp_path / "b") as own:
            place = Box.join(served.endpoint)
            results.append(play(launcher, place, own, tmp_path / f"run-{number}"))
        assert leftovers(own.paths, docker=launcher.name == "docker") == []
        served.watch()
        assert place.paths is not None
        assert list(place.paths.grants.iterdir()) == []
    assert [one.success for one in results] == [True, True]
    assert results[0].actions_sha256 == results[1].actions_sha256


def test_large_future_frames_come_back_through_a_ring_that_the_worker_writes(
    launcher: WithToy, tmp_path: Path
) -> None:
    with (
        serve_toy(launcher, tmp_path, "--future-side=160") as worker,
        Box.create(tmp_path / "b") as own,
    ):
        place = Box.join(worker.endpoint)
        played = play(launcher, place, own, tmp_path / "run", result_rings=1)
    assert played.values == tuple(float(chunk) for chunk in range(played.predictions))
    assert played.futures is not None
    kept = np.load(tmp_path / "run" / "episode" / played.futures)
    assert kept["future_primary"].shape == (played.predictions, 160, 160, 3)
    for chunk, frame in enumerate(kept["future_primary"]):
        assert (frame == chunk).all()


def test_leaving_the_block_ends_the_worker_and_its_box(
    launcher: WithToy, tmp_path: Path, served: StandaloneWorker
) -> None:
    place = Box.join(served.endpoint)
    wait_ready(served.endpoint, None, time.monotonic() + 60, lambda _: None)
    served.running.stop(grace_s=20)
    status = served.running.exit_status()
    assert status is not None
    assert (status.code, status.signal) == (0, None), served.running.last_log_lines()
    with pytest.raises(ProgramDied, match="worker toy"):
        served.watch()
    assert place.paths is not None
    assert place.paths.room.is_dir()


def test_a_worker_over_tcp_prints_the_port_that_it_was_given(
    launcher: WithToy, tmp_path: Path
) -> None:
    with serve_toy(launcher, tmp_path, listen="tcp://127.0.0.1:0") as worker:
        assert worker.endpoint.startswith("tcp://127.0.0.1:")
        assert not worker.endpoint.endswith(":0")
        assert worker.health.backend == "toy"
