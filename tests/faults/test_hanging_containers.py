# SPDX-License-Identifier: Apache-2.0
"""A simulator that hangs in a container is killed and removed there, and another one goes on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import pytest
from msgspec import Struct
from msgspec.structs import replace
from rpent_box_toy.backend import BACKEND
from rpent_box_toy.platform import PLATFORM
from rpent_box_toy.running import ENTRY_POINTS, PACKAGE, register_toy, short_folder
from tiny_boxes import IMAGE, containers, docker_words, leftovers, why_no_docker

import rpent_box
from rpent_box.contracts.control_messages import (
    ConnectWorker,
    EpisodePlayed,
    PlayEpisode,
    Progress,
    Restart,
)
from rpent_box.evaluate.seat import Patience, SimulatorSeat
from rpent_box.evaluate.starting import Programs
from rpent_box.evaluate.watchdog import play_again_if_lost
from rpent_box.launch.box import Box
from rpent_box.launch.choose import choose_launcher
from rpent_box.launch.images import image_name
from rpent_box.launch.program import Launcher, Mount, Program, Running
from rpent_box.launch.simulator import simulator_output_dir, simulator_program
from rpent_box.launch.worker import wait_ready, worker_program
from rpent_box.worker.needs import Needs

pytestmark = [pytest.mark.docker, pytest.mark.timeout(280)]

STALL_S = 5.0
START_S = 120.0
IMAGES = (IMAGE, image_name("platform", "libero"))
"""Any that has Python and this project's few dependencies will do: the toy is lent to it."""


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
        self.real.check(program)

    def sees_gpus(self) -> bool:
        return self.real.sees_gpus()

    def start(self, program: Program, box: Box) -> Running:
        lent = (
            Mount(str(Path(rpent_box.__file__).parent), "/lent/rpent_box"),
            Mount(str(PACKAGE), "/toy"),
        )
        path = {"PYTHONPATH": f"/lent:/toy:/toy/{ENTRY_POINTS.name}"}
        whole = replace(
            program,
            mounts=(*program.mounts, *lent),
            environment={**program.environment, **path},
        )
        return self.real.start(whole, box)


@pytest.fixture(scope="module")
def image() -> str:
    reasons = {name: why_no_docker(name) for name in IMAGES}
    for name, why in reasons.items():
        if not why:
            return name
    pytest.skip(next(iter(reasons.values())))


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> WithToy:
    register_toy(monkeypatch)
    return WithToy(choose_launcher("docker")[0])


def pause(box: Box) -> str:
    """Freeze the simulator of `box` from outside, as SIGSTOP would."""
    (name,) = [one for one in containers(box.id) if "-simulator-" in one]
    docker_words("pause", name)
    return name


@pytest.mark.parametrize("how", ["native_in_apply", "stop_in_apply", "paused", "die_in_apply"])
def test_a_lost_container_is_removed_and_another_plays_the_same_episode(
    launcher: WithToy, image: str, how: str
) -> None:
    with short_folder() as folder:
        box, played, restarts = play_three(launcher, image, folder, how)
        alone, other = played[0], played[1:]
        assert alone.restarts == ()
        # The same scene three times: alone, lost once, and undisturbed by what was before.
        for one in other:
            assert one.actions_sha256 == alone.actions_sha256
            assert one.first_frames_sha256 == alone.first_frames_sha256
        assert [len(one.restarts) for one in played] == [0, 1, 0]
        assert [one.why for one in restarts] == ["died" if how == "die_in_apply" else "hung"]
        assert "solved" in (folder / "run" / "simulator.log").read_text()
        assert "solved" in (folder / "run" / "simulator.1.log").read_text()
        if how == "native_in_apply":
            assert "in _be_lost" in (folder / "run" / "simulator.log").read_text()
        assert leftovers(box.paths, docker=True) == []


def play_three(
    launcher: WithToy, image: str, folder: Path, how: str
) -> tuple[Box, list[EpisodePlayed], list[Restart]]:
    """Play one scene three times, losing the simulator the second time."""
    run = folder / "run"
    (run / "episode").mkdir(parents=True)
    seen = simulator_output_dir(launcher, run)
    words = ("--step-delay-s", "0.05")
    if how != "paused":
        words += ("--breaks", how, "--breaks-while", f"{seen}/spoilt", "--breaks-at-step", "4")
    restarts: list[Restart] = []
    played = []
    with Box.create(folder / "boxes") as box:
        seat = start(launcher, image, box, run, words)
        with seat:
            place = box.worker_place
            wait_ready(place.endpoint, None, time.monotonic() + START_S, lambda _: None)
            seat.connect(seat.client.wait_ready(timeout_s=START_S))

            paused: list[str] = []

            def on_progress(progress: Progress) -> None:
                if how == "paused" and len(played) == 1 and progress.steps and not paused:
                    paused.append(pause(box))

            def on_restart(episode: int, restart: Restart) -> None:
                restarts.append(restart)
                (run / "spoilt").unlink(missing_ok=True)

            for episode in range(3):
                if episode == 1:
                    (run / "spoilt").touch()
                play = PlayEpisode(
                    suite="toy_easy",
                    task=0,
                    init_state=3,
                    episode=episode,
                    seed=7,
                    max_steps=40,
                    output_dir=f"{seen}/episode",
                )
                played.append(
                    play_again_if_lost(seat, play, on_progress=on_progress, on_restart=on_restart)
                )
            # The lost one is gone, not merely stopped: worker and replacement are all there is.
            assert len(containers(box.id)) == 2
            assert len(list(box.paths.grants.iterdir())) == 1
            seat.client.shut_down()
    return box, played, restarts


def start(
    launcher: WithToy, image: str, box: Box, run: Path, words: tuple[str, ...]
) -> SimulatorSeat:
    """Start the toy's worker and its simulator in `box`."""
    worker = worker_program(
        BACKEND,
        launcher,
        box,
        needs=Needs(device="cpu"),
        checkpoint=None,
        platform="toy",
        options=("--noise", "0.3"),
        python="",
        root=None,
        cuda_device=None,
        threads=1,
        log=str(run / "worker.log"),
        image=image,
    )
    simulator = simulator_program(
        PLATFORM,
        launcher,
        box,
        options=words,
        output_dir=run,
        threads=1,
        log=str(run / "simulator.log"),
        python="",
        image=image,
    )
    programs = Programs(launcher, box)
    programs.start(worker, simulator)
    place = box.worker_place
    return SimulatorSeat(
        programs,
        simulator,
        endpoint=box.paths.sim_endpoint(0),
        connect=ConnectWorker(
            endpoint=place.endpoint_for(launcher.view),
            box=place.box,
            prediction_timeout_s=STALL_S,
        ),
        patience=Patience(start_s=START_S, episode_s=120.0, stall_s=STALL_S),
    )
