# SPDX-License-Identifier: Apache-2.0
"""The same seed gives the same episode: twice by one launcher, and once by each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rpent_box_toy.running import short_folder
from tiny_boxes import why_no_docker

from rpent_box.evaluate.run import RunConfig, SilentWatcher, run_episodes
from rpent_box.evaluate.summary import RunSummary
from rpent_box.launch.environments import find_environment
from rpent_box.launch.images import image_name, image_state
from rpent_box.launch.recipe import Kind
from rpent_box.sim.manifest import read_manifest

pytestmark = [pytest.mark.docker, pytest.mark.simulator, pytest.mark.timeout(900)]

PROGRAMS: tuple[tuple[Kind, str], ...] = (("backend", "mini-wam"), ("platform", "libero"))
STEPS = 40
"""Four chunks: enough for a difference in one frame to reach the actions."""


def played(launcher: str) -> tuple[RunSummary, np.ndarray, str]:
    """Play the first steps of an episode; return its summary, its actions and what drew it."""
    with short_folder() as folder:
        summary = run_episodes(
            RunConfig(
                backend="mini-wam",
                platform="libero",
                launcher="docker" if launcher == "docker" else "process",
                first_init_state=3,
                max_steps=STEPS,
                video="none",
                backend_arguments=("--predict-future",),
                output_dir=str(folder / "runs"),
                runtime_dir=str(folder / "boxes"),
            ),
            SilentWatcher(),
        )
        (episode,) = Path(summary.run_dir).glob("episode-*")
        simulator = read_manifest(Path(summary.run_dir)).simulator
        assert simulator is not None
        return summary, np.load(episode / "actions.npy"), simulator.renderer


@pytest.fixture(scope="module")
def by_process() -> tuple[RunSummary, np.ndarray, str]:
    for kind, name in PROGRAMS:
        if find_environment(kind, name) is None:
            pytest.skip(f"{name} has no environment: rpent-box build {name} --launcher process")
    return played("process")


def test_two_runs_with_one_seed_are_identical(
    by_process: tuple[RunSummary, np.ndarray, str],
) -> None:
    first, actions, _ = by_process
    again, same, _ = played("process")
    assert len(actions) == STEPS
    assert actions.tobytes() == same.tobytes()
    (row,), (other,) = first.episodes, again.episodes
    assert (row.actions_sha256, row.first_frames_sha256, row.values) == (
        other.actions_sha256,
        other.first_frames_sha256,
        other.values,
    )


def test_containers_and_processes_act_alike(by_process: tuple[RunSummary, np.ndarray, str]) -> None:
    for kind, name in PROGRAMS:
        if why := why_no_docker(image_name(kind, name)):
            pytest.skip(why)
        if (state := _image_state(kind, name)) != "ready":
            pytest.skip(f"the image of {name} is {state}: rpent-box build {name}")
    summary, actions, renderer = by_process
    contained, other, drawn_by = played("docker")
    if renderer != drawn_by:
        pytest.skip(f"the process draws with {renderer}, the container with {drawn_by}")
    assert contained.episodes[0].values == pytest.approx(summary.episodes[0].values, abs=1e-6)
    np.testing.assert_allclose(other, actions, rtol=0, atol=1e-6)


def _image_state(kind: Kind, name: str) -> str:
    # Late: the Docker SDK is not installed where there is no engine.
    from rpent_box.launch.engine import Engine

    return image_state(Engine.connect(), kind, name)
