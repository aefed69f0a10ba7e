# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace

import pytest
from rpent_box_toy.platform import PLATFORM
from rpent_box_toy.running import register_toy

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.errors import BadCheckpoint
from rpent_box.sim import play

SUITES = {suite.name: suite for suite in PLATFORM.suites}


class Reached(Exception):
    """The plan was made, and nothing has been started."""


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    register_toy(monkeypatch)
    monkeypatch.setattr(play.signal, "signal", lambda *_: None)


def words(tmp_path, *more):
    return ["toy", "--endpoint", "ipc:///tmp/s.sock", "--output", str(tmp_path), *more]


@pytest.mark.parametrize(
    ("more", "planned"),
    [
        ((), ("toy_easy", 0, "reach", 0, 40)),
        (("--task", "1"), ("toy_easy", 1, "reach_again", 0, 40)),
        (("--task", "reach_again"), ("toy_easy", 1, "reach_again", 0, 40)),
        (("--suite", "toy_seeded", "--task", "far"), ("toy_seeded", 1, "far", 1000, 60)),
        (("--suite", "toy_seeded", "--scene-seed", "5"), ("toy_seeded", 0, "near", 5, 30)),
        (("--first-init-state", "3", "--max-steps", "9"), ("toy_easy", 0, "reach", 3, 9)),
    ],
)
def test_tasks_and_scenes_are_named_as_on_the_hosts_command_line(
    tmp_path, monkeypatch, more, planned
):
    plans = []

    def record(output, plan, started):
        plans.append(plan)
        raise Reached

    monkeypatch.setattr(play, "RunRecord", record)
    with pytest.raises(Reached):
        play.main(words(tmp_path, *more))
    (plan,) = plans
    assert (
        plan.suite,
        plan.task,
        plan.task_name,
        plan.first_init_state,
        plan.max_steps,
    ) == planned


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--task", "reech_again"), 2, "Did you mean reach_again"),
        (("--first-init-state", "6"), 2, "6 init states"),
        (("--show-predictions",), 2, "--video all"),
        (("--needs-assets",), 1, "toy-draw DIR"),
        (
            ("--suite", "toy_seeded", "--scene-seed", "999999", "--episodes", "2"),
            1,
            "no picture of 1000000",
        ),
    ],
)
def test_what_cannot_be_played_is_refused_before_a_folder_is_made(
    tmp_path, capsys, more, code, said
):
    assert play.main(words(tmp_path, *more)) == code
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_worker_whose_weights_are_tied_to_another_suite_is_refused():
    files = CheckpointManifest(
        backend="toy", platform="toy", checkpoint="ours", files=(), suites=("toy_hard",)
    )
    noted = []
    record = SimpleNamespace(note=lambda **facts: noted.append(facts))
    policy = SimpleNamespace(meta=SimpleNamespace(checkpoint_files=files))
    with pytest.raises(BadCheckpoint, match="trained on toy_hard; you asked for toy_easy_foggy"):
        play._play_all(None, policy, record, None, SUITES["toy_easy_foggy"])
    assert noted == [{"checkpoint": files}]
