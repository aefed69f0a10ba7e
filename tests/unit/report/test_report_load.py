# SPDX-License-Identifier: Apache-2.0
"""Folders of runs and evaluations are read as they are, or refused with what to do."""

from __future__ import annotations

import json

import msgspec
import pytest
from fabricated_runs import (
    META,
    WORKER,
    fabricate_evaluation,
    fabricate_run,
    plan_of,
    row_for,
)
from msgspec.structs import replace

from rpent_box.errors import BadOption, OutputError
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.lock import WriterLock
from rpent_box.evaluate.scale.plan import TaskKey, key_of
from rpent_box.report.load import load_entries, load_folder, load_pair

PLAN = plan_of({"libero_spatial": 2}, episodes=3)


def test_an_evaluation_is_read_with_what_was_asked_and_what_failed(tmp_path):
    path = fabricate_evaluation(tmp_path, "one", plan=PLAN, failed=(4,))
    folder = load_folder(path)
    assert (folder.kind, folder.name, folder.platform) == ("evaluation", "one", "libero")
    assert len(folder.asked) == 6
    assert [row.episode for row in folder.rows] == [0, 1, 2, 3, 5]
    assert [one.episode for one in folder.failed] == [4]
    assert folder.task_names[TaskKey("libero_spatial", 1)].startswith("pick_up_the_cookie_box")


def test_a_run_is_read_like_an_evaluation_of_one_task(tmp_path):
    folder = load_folder(fabricate_run(tmp_path, "two", task=3, episodes=2))
    assert folder.kind == "run"
    assert [key_of(row) for row in folder.rows] == [one.key for one in folder.asked]
    assert folder.failed == ()
    assert folder.setup.deciding["worker.meta.backend"] == "mini-wam"


def test_a_run_of_before_restarts_threads_and_thumbnails_is_read(tmp_path):
    path = fabricate_run(tmp_path, "old")
    rows = [json.loads(line) for line in (path / "results.jsonl").read_text().splitlines()]
    for row in rows:
        for field in ("restarts", "remarks", "values", "thumbnail", "session", "simulator"):
            row.pop(field, None)
    (path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    manifest = json.loads((path / "run.json").read_text())
    for field in ("restarts", "checkpoint"):
        del manifest[field]
    for field in ("device", "threads"):
        del manifest["plan"][field]
    (path / "run.json").write_text(json.dumps(manifest))
    folder = load_folder(path)
    assert len(folder.rows) == 3
    assert folder.rows[0].thumbnail is None


def test_rows_come_by_episode_whatever_order_they_were_played_in(tmp_path):
    path = fabricate_evaluation(tmp_path, "one", plan=PLAN)
    lines = (path / "results.jsonl").read_bytes().splitlines(keepends=True)
    (path / "results.jsonl").write_bytes(b"".join(reversed(lines)))
    assert [row.episode for row in load_folder(path).rows] == list(range(6))


def test_an_evaluation_that_has_just_begun_has_no_rows(tmp_path):
    path = fabricate_evaluation(tmp_path, "one", plan=PLAN, played=0, status="running")
    (path / "results.jsonl").unlink()
    (path / "failed.jsonl").unlink()
    folder = load_folder(path)
    assert (folder.rows, folder.failed) == ((), ())
    assert not folder.goes_on


def test_one_that_is_being_written_says_so(tmp_path):
    path = fabricate_evaluation(tmp_path, "one", plan=PLAN, played=2, status="running")
    with WriterLock(path):
        assert load_folder(path).goes_on
    assert not load_folder(path).goes_on


def test_a_torn_last_line_does_not_count(tmp_path):
    path = fabricate_evaluation(tmp_path, "one", plan=PLAN, played=3)
    with (path / "results.jsonl").open("ab") as file:
        file.write(b'{"suite": "libero_spat')
    assert len(load_folder(path).rows) == 3


def test_an_episode_with_two_results_is_refused(tmp_path):
    path = fabricate_evaluation(tmp_path, "one", plan=PLAN)
    line = (path / "results.jsonl").read_bytes().splitlines(keepends=True)[1]
    with (path / "results.jsonl").open("ab") as file:
        file.write(line)
    with pytest.raises(
        OutputError, match="libero_spatial 0, init state 1, seed 7 2 times"
    ) as caught:
        load_folder(path)
    assert "Remove the lines" in caught.value.hint


def test_a_result_that_nobody_asked_for_is_refused(tmp_path):
    path = fabricate_evaluation(tmp_path, "one", plan=PLAN, played=2)
    stray = row_for(plan_of({"libero_spatial": 9}).jobs()[80], run="one", skill=1)
    with (path / "results.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(stray) + b"\n")
    with pytest.raises(OutputError, match="does not ask for"):
        load_folder(path)


def test_another_format_is_refused_by_its_number(tmp_path):
    path = fabricate_evaluation(tmp_path, "one", plan=PLAN, format=2)
    with pytest.raises(OutputError, match=r"eval.json has format 2; rpent-box .* reads format 1"):
        load_folder(path)


def test_rows_of_another_version_are_refused_with_its_name(tmp_path):
    path = fabricate_run(tmp_path, "new")
    manifest = json.loads((path / "run.json").read_text())
    manifest["host"]["rpent_box"] = "9.0.0"
    (path / "run.json").write_text(json.dumps(manifest))
    row = json.loads((path / "results.jsonl").read_text().splitlines()[0]) | {"colour": "red"}
    (path / "results.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(OutputError, match=r"line 1, is not an episode.*colour") as caught:
        load_folder(path)
    assert "rpent-box 9.0.0 wrote it" in caught.value.hint


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": 1}', "\xff\xfe"])
def test_a_manifest_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "eval.json").write_text(text, encoding="latin-1")
    with pytest.raises(OutputError, match=r"eval.json"):
        load_folder(tmp_path)


def test_more_episodes_than_there_can_be_are_refused_before_they_are_counted(tmp_path):
    plan = replace(PLAN, tasks=(replace(PLAN.tasks[0], episodes=10**12),))
    path = fabricate_evaluation(tmp_path, "one", plan=PLAN)
    manifest = json.loads((path / "eval.json").read_text())
    manifest["plan"] = msgspec.to_builtins(plan)
    (path / "eval.json").write_text(json.dumps(manifest))
    with pytest.raises(OutputError, match="asks for 1000000000000 episodes"):
        load_folder(path)


def test_what_is_no_run_is_refused_with_the_runs_that_are_near(tmp_path):
    for name in ("20260101-a", "20260102-b", "20260103-c", "20260104-d"):
        fabricate_run(tmp_path, name)
    with pytest.raises(BadOption, match="neither run.json nor eval.json") as caught:
        load_folder(tmp_path)
    assert caught.value.hint.endswith("20260104-d, 20260103-c, 20260102-b")
    with pytest.raises(BadOption, match="there is no "):
        load_folder(tmp_path / "nowhere")
    with pytest.raises(BadOption, match=r"is a file; wanted the folder"):
        load_folder(tmp_path / "20260101-a" / "run.json")


def test_parts_with_the_same_setup_and_other_episodes_are_one_result(tmp_path):
    paths = [fabricate_run(tmp_path, f"run-{task}", task=task) for task in range(3)]
    (entry,) = load_entries(paths)
    assert [folder.name for folder in entry.folders] == ["run-0", "run-1", "run-2"]
    assert len(entry.rows()) == len(entry.keys) == 9


def test_another_step_limit_is_another_result_even_with_other_episodes(tmp_path):
    first, second = (plan_of({suite: 1}, episodes=3) for suite in ("one", "two"))
    limited = EvalConfig(platform="libero", suites=("two",), backend="mini-wam", max_steps=40)
    a = fabricate_evaluation(tmp_path, "a", plan=first)
    assert len(load_entries([a, fabricate_evaluation(tmp_path, "b", plan=second)])) == 1
    cut = fabricate_evaluation(tmp_path, "cut", plan=second, config=limited)
    assert len(load_entries([a, cut])) == 2
    # A run only notes the limit that there was: of the same task, it tells.
    (task,) = plan_of({"libero_spatial": 1}, episodes=2).tasks
    plan = replace(first, tasks=(replace(task, first_init_state=10, max_steps=task.max_steps + 1),))
    longer = fabricate_evaluation(tmp_path, "longer", plan=plan, checkpoint=None)
    run = fabricate_run(tmp_path, "run")
    assert len(load_entries([run, longer])) == 2
    plan = replace(first, tasks=(replace(task, first_init_state=10),))
    equal = fabricate_evaluation(tmp_path, "equal", plan=plan, checkpoint=None)
    assert len(load_entries([run, equal])) == 1


def test_the_same_episodes_twice_are_two_results(tmp_path):
    paths = [fabricate_run(tmp_path, "first"), fabricate_run(tmp_path, "second", salt="b")]
    paths.append(fabricate_run(tmp_path, "other", task=4))
    first, second = load_entries(paths)
    assert [folder.name for folder in first.folders] == ["first", "other"]
    assert [folder.name for folder in second.folders] == ["second"]


def test_another_setup_is_another_result_even_with_other_episodes(tmp_path):
    other = replace(WORKER, meta=replace(META, checkpoint="step_30000"))
    a = fabricate_evaluation(tmp_path, "a", plan=PLAN)
    b = fabricate_evaluation(
        tmp_path, "b", plan=plan_of({"libero_object": 2}, episodes=3), worker=other
    )
    assert len(load_entries([a, b])) == 2


def test_a_folder_that_is_given_twice_is_refused(tmp_path):
    path = fabricate_run(tmp_path, "one")
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(BadOption, match="is given 2 times"):
        load_entries([path, tmp_path / "link"])
    with pytest.raises(BadOption, match="is given 2 times"):
        load_pair(path, path)


def test_platforms_are_not_mixed(tmp_path):
    a = fabricate_evaluation(tmp_path, "a", plan=PLAN)
    b = fabricate_evaluation(tmp_path, "b", plan=replace(PLAN, platform="robotwin"))
    with pytest.raises(BadOption, match="these are of libero, robotwin"):
        load_entries([a, b])
