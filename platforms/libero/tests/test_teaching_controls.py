# SPDX-License-Identifier: Apache-2.0
"""Attempts at another task's sentence: what is planned, seen and kept, without a simulator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import asdict, replace

import rpent_box_libero.teaching
from rpent_box.errors import BadOption, OutputError, UnknownName
from rpent_box.sim.lines import LineWriter
from rpent_box_libero.teaching import controls
from rpent_box_libero.teaching.controls import choose_lessons, key_of, plan, summary
from rpent_box_libero.teaching.lessons import find_lesson
from rpent_box_libero.teaching.state import Pose, SceneState
from rpent_box_libero.teaching.trial import Conditions, Lifted, Onlooker, Reached, Trial, thing_at

OWN, NAMED, PLATE, OTHER = (
    "akita_black_bowl_1_main",
    "akita_black_bowl_2_main",
    "plate_1_main",
    "cookies_1_main",
)
STANDS = {
    OWN: (0.0, 0.0, 0.9),
    NAMED: (0.2, 0.2, 0.9),
    PLATE: (-0.2, 0.2, 0.9),
    OTHER: (0.3, 0.0, 0.9),
    "robot0_base": (-0.6, 0.0, 0.9),
}


def scene(**moved: tuple[float, float, float]) -> SceneState:
    """Return a scene in which the named things are elsewhere; `OWN` is called `own`, and so on."""
    names = {"own": OWN, "named": NAMED, "plate": PLATE, "other": OTHER, "robot": "robot0_base"}
    places = STANDS | {names[name]: place for name, place in moved.items()}
    return SceneState(
        hand=np.zeros(3),
        hand_rotation=np.eye(3),
        aperture=0.08,
        bodies={name: Pose(np.array(place), np.eye(3)) for name, place in places.items()},
        sites={},
        joints={},
    )


def onlooker() -> Onlooker:
    named, own = (
        find_lesson(name).skill for name in ("libero_spatial-0-says-1", "libero_spatial-0")
    )
    return Onlooker(scene(), named=named, own=own)


@pytest.mark.parametrize(
    ("state", "lifted"),
    [
        (scene(), "none"),
        (scene(named=(0.2, 0.2, 0.92)), "none"),
        (scene(named=(0.1, 0.2, 0.95)), "named"),
        (scene(own=(0.0, 0.0, 0.95)), "own"),
        (scene(other=(0.3, 0.0, 0.95)), "other"),
        (scene(own=(0.0, 0.0, 0.95), named=(0.2, 0.2, 0.95)), "both"),
        (scene(robot=(-0.6, 0.0, 1.5)), "none"),
        (scene(named=(0.2, 0.2, 0.1)), "none"),
    ],
)
def test_what_has_risen_is_what_was_lifted(state: SceneState, lifted: Lifted) -> None:
    watching = onlooker()
    watching.see(state, solved=False)
    assert watching.lifted == lifted


def test_the_first_thing_lifted_counts_and_the_first_goal_reached() -> None:
    watching = onlooker()
    watching.see(scene(named=(0.2, 0.2, 1.0)), solved=False)
    watching.see(scene(own=(0.0, 0.0, 1.0)), solved=True)
    watching.see(scene(named=(-0.2, 0.2, 0.905)), solved=False)
    assert (watching.lifted, watching.reached) == ("named", "own")


def test_the_named_bowl_on_the_plate_is_what_was_asked_for() -> None:
    watching = onlooker()
    watching.see(scene(named=(-0.2, 0.2, 0.905)), solved=False)
    assert watching.reached == "named"


def test_a_place_far_from_everything_is_no_things() -> None:
    assert thing_at(scene(), np.array([0.22, 0.19, 0.92])) == NAMED
    assert thing_at(scene(), np.array([0.0, 0.5, 0.9])) is None


def test_each_scene_of_libero_spatial_has_another_sentence_to_be_said() -> None:
    chosen = choose_lessons("libero_spatial", "all")
    assert [lesson.task for lesson in chosen] == list(range(10))
    assert all(lesson.says != lesson.task for lesson in chosen)


def test_scenes_are_chosen_by_number_and_a_wrong_one_is_refused() -> None:
    assert [one.task for one in choose_lessons("libero_spatial", "7, 2")] == [2, 7]
    name = "pick_up_the_black_bowl_from_table_center_and_place_it_on_the_plate"
    assert [one.task for one in choose_lessons("libero_spatial", f"0,{name}")] == [0, 2]
    with pytest.raises(UnknownName, match=r"in the scene of task 10"):
        choose_lessons("libero_spatial", "1,10")


@pytest.mark.parametrize("suite", ["libero_goal", "nowhere"])
def test_a_suite_without_other_sentences_is_refused_before_anything_is_played(suite: str) -> None:
    with pytest.raises(UnknownName, match=f"no scene of {suite}") as refused:
        choose_lessons(suite, "all")
    assert "the suite's own scores" in str(refused.value)


UNDER = Conditions(
    model="toy 1", seed=7, renderer="osmesa", versions={"mujoco": "3.3.1", "numpy": "2.2.5"}
)


def trial(
    init_state: int = 0, *, lifted: Lifted = "none", reached: Reached = "none", task: int = 0
) -> Trial:
    return Trial(
        **asdict(UNDER),
        suite="libero_spatial",
        task=task,
        says=1,
        init_state=init_state,
        lifted=lifted,
        reached=reached,
        steps=9,
    )


def test_every_state_is_asked_for_once_per_sentence() -> None:
    asked = list(plan(choose_lessons("libero_spatial", "all"), UNDER, episodes=3))
    assert len({key_of(one) for one in asked}) == len(asked) == 30
    assert {one.seed for one in asked} == {7}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """Let every attempt lift the named thing; return what was played."""
    made: list[Trial] = []

    def play(missing: Sequence[Trial], setup: controls.Setup, *, workers: int) -> Iterator[Trial]:
        for asked in missing:
            made.append(replace(asked, lifted="named", reached="named", steps=50))
            yield made[-1]

    monkeypatch.setattr(controls, "play", play)
    monkeypatch.setattr(controls, "identify", lambda policy: f"toy {policy.checkpoint}")
    return made


def run(path: Path, *words: str) -> int:
    return controls.main(["--out", str(path), "--tasks", "3,4", "--episodes", "2", *words])


def test_what_is_in_the_file_is_not_played_again(
    tmp_path: Path, played: list[Trial], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "controls.jsonl"
    assert run(path) == 0
    assert len(played) == 4
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:30])
    played.clear()
    assert run(path) == 0
    assert [key_of(one)[3] for one in played] == [0, 1]
    assert {one.task for one in played} == {4}
    assert path.read_bytes() == b"".join(lines)
    assert "all: of 4, lifted first {'named': 4}" in capsys.readouterr().out


def test_another_policys_attempts_are_not_mixed_with_this_ones(
    tmp_path: Path, played: list[Trial], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "controls.jsonl"
    assert run(path, "--checkpoint", "a") == 0
    assert run(path, "--checkpoint", "b") == 1
    assert 'under other conditions: model: "toy a", not "toy b"' in capsys.readouterr().err
    assert len(played) == 4


def test_attempts_with_another_seed_are_not_counted_with_these(
    tmp_path: Path, played: list[Trial], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "controls.jsonl"
    assert run(path, "--seed", "7") == 0
    assert run(path, "--seed", "8") == 1
    assert "under other conditions: seed: 7, not 8" in capsys.readouterr().err
    assert len(played) == 4


def test_attempts_that_another_renderer_drew_are_not_counted_with_these(
    tmp_path: Path,
    played: list[Trial],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "controls.jsonl"
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert run(path) == 0
    monkeypatch.setenv("MUJOCO_GL", "egl")
    assert run(path) == 1
    assert 'under other conditions: renderer: "osmesa", not "egl"' in capsys.readouterr().err
    assert len(played) == 4


def test_attempts_of_another_simulators_version_are_refused_and_only_that_one_is_named(
    tmp_path: Path,
) -> None:
    path = tmp_path / "controls.jsonl"
    with LineWriter(path) as file:
        file.append(trial())
    assert controls.read_done(path, UNDER) == [trial()]
    newer = replace(UNDER, versions=UNDER.versions | {"mujoco": "3.4.0"})
    with pytest.raises(OutputError) as refused:
        controls.read_done(path, newer)
    assert 'other conditions: mujoco: "3.3.1", not "3.4.0"\n' in f"{refused.value}\n"


def test_attempts_whose_renderer_is_not_known_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "controls.jsonl"
    known = asdict(trial())
    del known["renderer"]
    path.write_bytes(msgspec.json.encode(known) + b"\n")
    with pytest.raises(OutputError, match=r"is not an attempt: .*`renderer`"):
        controls.read_done(path, UNDER)


def test_nobody_cannot_play(
    tmp_path: Path, played: list[Trial], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "x", "--workers", "0") == 1
    assert "0 workers were asked for" in capsys.readouterr().err
    assert not played


def test_more_states_than_are_recorded_are_refused(tmp_path: Path, played: list[Trial]) -> None:
    options = controls._parser().parse_args(["--out", str(tmp_path / "x"), "--episodes", "51"])
    with pytest.raises(BadOption, match="51 episodes were asked for; wanted 1 to 50"):
        controls.run(options)
    assert not played


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"suite": "libero_spatial"}\n')
    with pytest.raises(OutputError, match="is not an attempt"):
        controls.read_done(path, UNDER)


def test_the_summary_counts_each_scene_and_all() -> None:
    told = list(
        summary(
            [
                trial(0, lifted="named", reached="named"),
                trial(1, lifted="own", reached="none"),
                trial(0, lifted="named", reached="none", task=5),
            ]
        )
    )
    assert told[0].startswith("scene 0 says 1: of 2, lifted first {'named': 1, 'own': 1}")
    assert told[1].startswith("scene 5 says 1: of 1")
    assert told[2].startswith("all: of 3, lifted first {'named': 2, 'own': 1}")


def test_nothing_that_teaches_reads_the_recorded_states_or_what_judges_by_them() -> None:
    folder = Path(rpent_box_libero.teaching.__file__).parent
    readers = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if any(
            word in path.read_text() for word in ("init_states", "init_state=", "teaching.trial")
        )
    }
    importers = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(
            r"teaching\.(controls|disjoint) import|import (controls|disjoint)", path.read_text()
        )
    }
    assert readers == {"controls.py", "disjoint.py", "trial.py"}
    assert not importers
