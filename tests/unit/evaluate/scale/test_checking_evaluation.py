# SPDX-License-Identifier: Apache-2.0
import pytest
from msgspec.structs import replace
from rpent_box_toy.platform import PICTURES
from rpent_box_toy.running import register_toy

from rpent_box.errors import AssetsMissing, BadOption, UnknownName, UsageError
from rpent_box.evaluate.scale import checking
from rpent_box.evaluate.scale.checking import check_evaluation, require_unique
from rpent_box.evaluate.scale.config import EvalConfig


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    register_toy(monkeypatch)


def checked(**changes):
    return check_evaluation(
        EvalConfig(**{"platform": "toy", "backend": "toy", "episodes": 2} | changes)
    )


def tasks_of(**changes):
    return [(task.suite, task.task) for task in checked(**changes).plan.tasks]


def test_a_plain_evaluation_plays_all_tasks_of_the_platforms_default_suite():
    result = checked()
    assert [suite.name for suite in result.suites] == ["toy_easy"]
    assert [(task.name, task.max_steps) for task in result.plan.tasks] == [
        ("reach", 40),
        ("reach_again", 40),
    ]
    assert (result.plan.backend, result.plan.threads, result.plan.device) == ("toy", 1, "cpu")
    assert result.plan.seeds == (7,)
    assert result.fitting == ("toy",)


def test_suites_are_played_in_the_order_given_each_from_its_first_init_state():
    plan = checked(suites=("toy_seeded", "toy_hard")).plan
    assert plan.suites == ("toy_seeded", "toy_hard")
    assert [(task.suite, task.task, task.first_init_state) for task in plan.tasks] == [
        ("toy_seeded", 0, 1000),
        ("toy_seeded", 1, 1000),
        ("toy_hard", 0, 0),
    ]
    assert [task.max_steps for task in plan.tasks] == [30, 60, 25]
    assert {task.max_steps for task in checked(suites=("toy_seeded",), max_steps=9).plan.tasks} == {
        9
    }


def test_tasks_are_chosen_by_index_or_name_of_each_suite():
    assert tasks_of(tasks=("reach_again",)) == [("toy_easy", 1)]
    both = tasks_of(suites=("toy_easy", "toy_easy_foggy"), tasks=("reach_again", 0))
    assert both == [
        ("toy_easy", 1),
        ("toy_easy", 0),
        ("toy_easy_foggy", 1),
        ("toy_easy_foggy", 0),
    ]


def test_each_init_state_is_played_once_with_each_seed_and_no_key_comes_twice():
    plan = checked(suites=("toy_easy", "toy_easy_foggy"), seeds=(7, 8, 9), first_init_state=1).plan
    jobs = plan.jobs()
    assert len(jobs) == 2 * 2 * 2 * 3
    assert len({job.key for job in jobs}) == len(jobs)
    assert [job.episode for job in jobs] == list(range(len(jobs)))
    assert {job.init_state for job in jobs} == {1, 2}


@pytest.mark.parametrize(
    ("changes", "kind", "message", "hint"),
    [
        ({"suites": ("toy_nope",)}, UnknownName, "no suite called toy_nope", "toy_easy"),
        ({"suites": ("toy_easy", "libero_goal")}, UnknownName, "libero_goal", ""),
        ({"suites": ("toy_gone",)}, UsageError, "cannot be played: no files", ""),
        (
            {"suites": ("toy_easy", "toy_hard", "toy_easy")},
            BadOption,
            "names toy_easy more",
            "--seed",
        ),
        ({"tasks": ("reach", 0)}, BadOption, r"names 0 \(reach\) of toy_easy more", "may mean"),
        ({"tasks": (2,)}, UnknownName, "no task 2", "0 to 1"),
        (
            {"suites": ("toy_easy", "toy_hard"), "tasks": (1,)},
            UnknownName,
            "toy_hard has no task 1",
            "",
        ),
        ({"seeds": ()}, BadOption, "no seed", "--seed 7"),
        ({"seeds": (7, 8, 7)}, BadOption, "names 7 more than once", "once"),
        ({"seeds": (-1,)}, BadOption, "-1 is no seed", "--seed"),
        ({"episodes": 0}, BadOption, "0 episodes", ""),
        ({"episodes": 7}, BadOption, "has 6 init states", "up to 6"),
        ({"first_init_state": 5}, BadOption, "from init state 5", "up to 1"),
        ({"video": "none", "show_predictions": True}, UsageError, "draws into videos", "--video"),
        ({"max_steps": 0}, BadOption, "step limit of 0", ""),
        ({"envs": 0}, BadOption, "0 simulators", "--envs auto"),
        ({"envs": 100_000}, BadOption, "100000 simulators", "--envs auto"),
        ({"max_batch": 0}, BadOption, "--max-batch 0", ""),
        ({"max_wait_ms": -1.0}, BadOption, "--max-wait-ms -1.0", "by itself"),
        ({"max_wait_ms": float("nan")}, BadOption, "--max-wait-ms nan", "by itself"),
        ({"ray_nodes": 2}, UsageError, "about a cluster", "--ray auto"),
        ({"ray": "auto", "ray_nodes": 0}, BadOption, "plays nowhere", ""),
        (
            {"backend_arguments": ("--url=http://***@h",)},
            UsageError,
            "never written down",
            "beside --resume",
        ),
    ],
)
def test_what_cannot_be_played_is_said_with_what_can(changes, kind, message, hint):
    with pytest.raises(kind, match=message) as caught:
        checked(**changes)
    assert hint in str(caught.value)


@pytest.mark.parametrize("shown", [True, False])
def test_every_episode_is_filmed_as_it_was_asked_for(shown):
    plan = checked(video="failures", show_predictions=shown).plan
    plays = [plan.play(job, "/out") for job in plan.jobs()]
    assert {(play.video, play.show_predictions) for play in plays} == {("failures", shown)}


@pytest.mark.parametrize("given", [{"max_batch": 4}, {"max_wait_ms": 2.0}, {"ray": "auto"}])
def test_a_borrowed_worker_is_as_it_is(given):
    borrowed = {"endpoint": "ipc:///tmp/w.sock", "backend": None}
    (name,) = given
    with pytest.raises(UsageError, match=f"--endpoint excludes --{name.replace('_', '-')}"):
        checked(**borrowed, **given)
    plan = checked(**borrowed).plan
    assert (plan.endpoint, plan.backend, plan.threads) == ("ipc:///tmp/w.sock", None, None)


def test_more_episodes_than_one_evaluation_plays_are_refused_before_they_are_listed(monkeypatch):
    monkeypatch.setattr(checking, "MOST_EPISODES", 12)
    assert len(checked(suites=("toy_easy",), episodes=6).plan.jobs()) == 12
    with pytest.raises(BadOption, match="come to 24 episodes") as caught:
        checked(suites=("toy_easy",), episodes=6, seeds=(1, 2))
    assert "--episodes up to 3" in caught.value.hint
    with pytest.raises(BadOption) as caught:
        checked(suites=("toy_easy",), episodes=1, seeds=tuple(range(20)))
    assert "fewer tasks or seeds" in caught.value.hint


def test_two_equal_jobs_are_never_played_whatever_made_them():
    jobs = checked().plan.jobs()
    require_unique(jobs)
    with pytest.raises(UsageError, match=r"another one's key.*toy_easy"):
        require_unique([*jobs, replace(jobs[0], episode=99)])
    with pytest.raises(UsageError, match="another one's folder"):
        require_unique([*jobs, replace(jobs[0], seed=99)])


def test_what_is_written_down_means_the_same_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / PICTURES).touch()
    monkeypatch.chdir(tmp_path)
    given = {
        "checkpoint": "weights",
        "python": "bin/python",
        "platform_python": "python3",
        "root": "there",
        "platform_arguments": ("--assets-path=assets",),
    }
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "toy.json").write_text("{}")
    found = checked(**given)
    assert found.config.checkpoint == found.plan.checkpoint == str(tmp_path / "weights")
    assert found.config.python == str(tmp_path / "bin/python")
    assert found.config.platform_python == "python3"
    assert (found.config.root, found.config.output_dir) == (
        str(tmp_path / "there"),
        str(tmp_path / "runs"),
    )
    assert found.plan.platform_arguments == (f"--assets-path={tmp_path / 'assets'}",)
    monkeypatch.chdir("/")
    again = check_evaluation(found.config)
    assert (again.plan, again.config) == (found.plan, found.config)


def test_assets_of_all_scenes_are_looked_for_and_only_once_everything_else_is_sound():
    near = {"suites": ("toy_easy", "toy_seeded"), "episodes": 2}
    assert checked(**near).plan.suites == ("toy_easy", "toy_seeded")
    far = {"suites": ("toy_seeded",), "first_init_state": 999_999}
    with pytest.raises(AssetsMissing, match="no picture of 1000000"):
        checked(**far)
    with pytest.raises(BadOption):
        checked(**far, envs=0)
