# SPDX-License-Identifier: Apache-2.0
"""How an episode is recorded and cut into shards, around a pretended scene."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rpent_box.contracts.observation import Observation
from rpent_box.errors import OutputError, UnknownName
from rpent_box_libero.teaching import demonstrate
from rpent_box_libero.teaching.episode import CHUNK, Episode, Recording, record_episode
from rpent_box_libero.teaching.expert import HAND_DOWN, Expert, SceneState
from rpent_box_libero.teaching.lessons import find_lesson
from rpent_box_libero.teaching.shards import read_header

SOLVED_AFTER = 35


class PretendedScene:
    """Counts steps; each frame shows how many were executed; solved after `SOLVED_AFTER`."""

    instruction = "pick it"

    def __init__(self) -> None:
        self.expert = Expert()
        self.steps = 0
        self.executed: list[NDArray[np.float64]] = []

    def sample(self, rng: np.random.Generator, *, joint_noise_rad: float) -> Observation:
        self.steps = 0
        self.executed = []
        self.start = float(rng.normal(0, joint_noise_rad))
        return self._observe()

    def execute(self, actions: NDArray[np.float64]) -> tuple[Observation, bool]:
        self.steps += len(actions)
        self.executed.append(actions)
        return self._observe(), self.steps >= SOLVED_AFTER

    def label(self, steps: int) -> NDArray[np.float64]:
        return np.tile([0.1, 0, 0, 0, 0, 0, -1.0], (steps, 1))

    def state(self) -> SceneState:
        return SceneState(
            hand=np.array([self.start, 0, 1]),
            hand_rotation=HAND_DOWN,
            aperture=0.08,
            thing=np.array([0, 0, 0.9]),
            thing_upright=1.0,
            goal=np.array([0.1, 0, 0.9]),
        )

    def _observe(self) -> Observation:
        return Observation(
            images={"primary": np.full((4, 4, 3), self.steps, np.uint8)},
            proprio={"eef_position": np.full(3, self.start, np.float32)},
            instruction=self.instruction,
        )


def record(seed: int = 0, student: Any = None, **recording: float) -> tuple[Episode, Any]:
    scene: Any = PretendedScene()
    made = record_episode(scene, np.random.default_rng(seed), Recording(**recording), student)
    return made, scene


def test_a_row_holds_what_was_seen_and_what_the_expert_would_do_from_there() -> None:
    episode, scene = record()
    columns = episode.columns
    rows = len(columns["actions"])
    starts = np.cumsum([0, *(len(actions) for actions in scene.executed)])[:-1]
    assert columns["image_primary"][:, 0, 0, 0].tolist() == starts.tolist()
    assert columns["actions"].shape == (rows, CHUNK, 7)
    assert columns["actions"].dtype == np.float32
    assert episode.solved


def test_an_episode_follows_from_its_generator_alone() -> None:
    one, two = record(5)[0].columns, record(5)[0].columns
    assert all(np.array_equal(one[name], two[name]) for name in one)
    assert not np.array_equal(record(6)[0].columns["eef_position"], one["eef_position"])


def test_only_a_whole_calm_chunk_is_linked_to_what_came_of_it() -> None:
    seen = set()
    for seed in range(6):
        episode, scene = record(seed, noise=0.0)
        lengths = [len(actions) for actions in scene.executed]
        wanted = [row + 1 if length == CHUNK else -1 for row, length in enumerate(lengths)]
        assert episode.columns["next_row"].tolist() == [*wanted[:-1], -1]
        seen |= set(lengths)
    assert seen == {5, 10}


def test_the_student_acts_and_the_expert_labels() -> None:
    def student(observation: Observation) -> NDArray[np.float32]:
        return np.full((CHUNK, 7), 0.5, np.float32)

    episode, scene = record(2, student, student_share=1.0)
    assert episode.columns["student_acts"].all()
    assert (episode.columns["actions"][:, 0, 0] == np.float32(0.1)).all()
    assert any((actions[:, 0] == 0.5).all() for actions in scene.executed)


def test_without_its_share_the_student_does_not_act() -> None:
    def student(observation: Observation) -> NDArray[np.float32]:
        raise AssertionError("the student was asked")

    episode, _ = record(2, student, student_share=0.0)
    assert not episode.columns["student_acts"].any()


def test_an_episode_ends_at_the_step_limit() -> None:
    episode, scene = record(3, max_steps=20)
    assert not episode.solved
    assert 20 <= episode.steps < 30
    assert sum(len(actions) for actions in scene.executed) == episode.steps


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstrate, "_scene", lambda suite, task: PretendedScene())


def run(out: Path, *words: str) -> None:
    options = demonstrate._parser().parse_args(["--out", str(out), "--episodes", "20", *words])
    out.mkdir(exist_ok=True)
    for job in demonstrate.plan_jobs(options):
        demonstrate.make_shard(job)


def columns_of(folder: Path) -> dict[str, NDArray[Any]]:
    shards = [np.load(path, allow_pickle=False) for path in sorted(folder.glob("*.npz"))]
    names = set(shards[0].files) - {"header"}
    return {name: np.concatenate([shard[name] for shard in shards]) for name in names}


@pytest.mark.usefixtures("pretended")
def test_an_episodes_rows_do_not_depend_on_the_shard_it_lies_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "eight")
    monkeypatch.setattr(demonstrate, "EPISODES_PER_SHARD", 3)
    run(tmp_path / "three")
    eight, three = columns_of(tmp_path / "eight"), columns_of(tmp_path / "three")
    assert set(eight["episode"]) == set(range(20))
    for name in set(eight) - {"next_row"}:
        assert np.array_equal(eight[name], three[name]), name


@pytest.mark.usefixtures("pretended")
def test_rows_of_a_shard_are_linked_within_their_episode(tmp_path: Path) -> None:
    run(tmp_path)
    links = 0
    for path in tmp_path.glob("*.npz"):
        with np.load(path, allow_pickle=False) as shard:
            for row, following in enumerate(shard["next_row"]):
                if following >= 0:
                    assert following == row + 1
                    assert shard["episode"][row] == shard["episode"][following]
                    links += 1
    assert links > 0


@pytest.mark.usefixtures("pretended")
def test_the_last_shard_holds_what_is_left(tmp_path: Path) -> None:
    run(tmp_path)
    headers = [read_header(path) for path in sorted(tmp_path.glob("*.npz"))]
    assert [header.episodes for header in headers] == [8, 8, 4]
    assert headers[0].instruction == "pick it"
    assert sum(header.solved for header in headers) == 20


@pytest.mark.usefixtures("pretended")
def test_finished_shards_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path)
    monkeypatch.setattr(demonstrate, "run_jobs", lambda jobs, workers: made.extend(jobs))
    made: list[demonstrate.Job] = []
    next(tmp_path.glob("*000008.npz")).unlink()
    assert demonstrate.main(["--out", str(tmp_path), "--episodes", "20"]) == 0
    assert [job.header.first_episode for job in made] == [8]


@pytest.mark.usefixtures("pretended")
def test_another_recipe_in_the_same_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path)
    words = ["--out", str(tmp_path), "--episodes", "20", "--noise", "0.5"]
    assert demonstrate.main(words) == 1
    assert "other settings" in capsys.readouterr().err


def test_an_unwritable_folder_is_an_error_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    words = ["--out", str(tmp_path / "file" / "below"), "--episodes", "1"]
    jobs = demonstrate.plan_jobs(demonstrate._parser().parse_args(words))
    with pytest.raises(OutputError, match="cannot create"):
        demonstrate.run_jobs(jobs, workers=1)


def test_a_task_without_a_lesson_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(UnknownName) as caught:
        find_lesson("libero_10", 3)
    assert "libero_spatial 0" in caught.value.hint
