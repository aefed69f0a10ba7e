# SPDX-License-Identifier: Apache-2.0
"""An evaluation in containers: as in processes, also when its simulators and its worker die."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rpent_box_toy.evaluating import EvalRecorder
from rpent_box_toy.running import boxes_in, short_folder
from tiny_boxes import why_no_docker

from rpent_box.evaluate.run import RunConfig, SilentWatcher, run_episodes
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.evaluation import run_evaluation
from rpent_box.evaluate.scale.manifest import read_eval_manifest
from rpent_box.launch.images import image_name, image_state
from rpent_box.launch.recipe import Kind
from rpent_box.sim.results import read_results

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

PROGRAMS: tuple[tuple[Kind, str], ...] = (("backend", "mini-wam"), ("platform", "libero"))
STEPS = 30


@pytest.fixture(scope="module", autouse=True)
def _engine() -> None:
    for kind, name in PROGRAMS:
        if why := why_no_docker(image_name(kind, name)):
            pytest.skip(why)
        from rpent_box.launch.engine import Engine

        if (state := image_state(Engine.connect(), kind, name)) != "ready":
            pytest.skip(f"the image of {name} is {state}: rpent-box build {name}")


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as made:
        yield made


def kill_one(folder: Path, role: str) -> None:
    """End the container of `role` that was started first, as the kernel does when it runs out."""
    from rpent_box.launch.engine import Engine

    (box,) = boxes_in(folder)
    labels = [f"rpent-box.box={box}", f"rpent-box.role={role}"]
    running = Engine.connect().client.containers.list(filters={"label": labels})
    min(running, key=lambda one: one.attrs["Created"]).kill("SIGKILL")


def test_episodes_in_containers_are_those_of_a_run_and_survive_kills(folder: Path) -> None:
    to_kill = ["simulator", "worker"]

    def disturb(simulator: str, job: object, progress: object) -> None:
        if recorder.moves > 8 * (3 - len(to_kill)) and to_kill:
            kill_one(folder, to_kill.pop(0))

    recorder = EvalRecorder(on_progress=disturb)
    summary = run_evaluation(
        EvalConfig(
            backend="mini-wam",
            platform="libero",
            suites=("libero_spatial",),
            tasks=(0, 3),
            episodes=2,
            max_steps=STEPS,
            video="none",
            launcher="docker",
            output_dir=str(folder / "runs"),
            runtime_dir=str(folder / "boxes"),
        ),
        recorder,
    )
    run_dir = Path(summary.run_dir)
    rows = {(row.task, row.init_state): row for row in read_results(run_dir)}
    assert (summary.status, len(rows), to_kill) == ("complete", 4, [])
    assert recorder.restarts or recorder.workers_lost
    assert len(recorder.workers_lost) == 1
    manifest = read_eval_manifest(run_dir)
    assert set(manifest.images) == {"worker", "simulator"}
    (session,) = manifest.sessions
    assert session.launcher == "docker"
    assert session.places[0].worker_starts == 2
    assert "asked" not in recorder.envs[0][1], "chosen by itself, since no number was given"
    assert boxes_in(folder) == []

    alone = run_episodes(
        RunConfig(
            backend="mini-wam",
            platform="libero",
            suite="libero_spatial",
            task=3,
            first_init_state=1,
            max_steps=STEPS,
            video="none",
            launcher="docker",
            output_dir=str(folder / "runs"),
            runtime_dir=str(folder / "boxes"),
        ),
        SilentWatcher(),
    )
    (row,) = alone.episodes
    assert row.first_frames_sha256 == rows[3, 1].first_frames_sha256
    assert row.actions_sha256 == rows[3, 1].actions_sha256
