# SPDX-License-Identifier: Apache-2.0
"""Scores as Markdown."""

from __future__ import annotations

import re

import pytest
from fabricated_runs import META, WORKER, fabricate_evaluation, plan_of
from msgspec.structs import replace

from rpent_box.report.load import Entry, load_folder
from rpent_box.report.markdown import played_with, table, tables_of

PLAN = plan_of({"libero_spatial": 2, "libero_goal": 1}, episodes=4)


def entry(tmp_path, name, **more):
    return load(fabricate_evaluation(tmp_path, name, **more))


def load(folder):
    return Entry(folders=(load_folder(folder),))


def solving(*episodes, steps=60):
    """Let these episodes be solved, and no other."""

    def change(job, row):
        return replace(row, success=job.episode in episodes, steps=steps + job.episode)

    return change


def row_of(text, *begin):
    (line,) = [line for line in text.splitlines() if line.startswith("| " + " | ".join(begin))]
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_suites_and_their_tasks_are_counted_with_intervals_and_steps(tmp_path):
    text = tables_of([entry(tmp_path, "one", plan=PLAN, change=solving(0, 1, 2, 4, 5, 6, 7))])
    suite = row_of(text, "libero_spatial")
    assert suite == ["libero_spatial", "7 of 8", "87.5%", "52.9–97.8%", "63.6 (60–67)"]
    assert row_of(text, "libero_goal")[1:3] == ["0 of 4", "0.0%"]
    text = text.partition("libero_goal, by task")[0]
    task = row_of(text, "0", "pick up the black bowl")
    assert task[2:] == ["3 of 4", "30.1–95.4%", "61"]
    assert row_of(text, "1", "pick up the cookie box")[2] == "4 of 4"
    assert "libero_spatial, by task:" in text


def test_what_else_was_played_of_a_suite_and_its_variants_stands_beside_its_tasks(tmp_path):
    spatial = plan_of({"libero_spatial": 2}, episodes=4)
    blind = replace(spatial, backend_arguments=("--see=grey",))
    swapped = replace(plan_of({"libero_spatial_swap": 2}, episodes=4), platform="libero-pro")
    text = tables_of(
        [
            entry(tmp_path, "a", plan=blind, change=solving(5)),
            entry(tmp_path, "b", plan=swapped, change=solving(0, 1)),
            entry(tmp_path, "c", plan=spatial, change=solving(*range(8))),
        ]
    )
    assert text.count("by task:") == 1
    header = row_of(text, "task")
    assert header[-2:] == ["`--see=grey`", "libero_spatial_swap"]
    assert row_of(text, "0", "pick up")[-2:] == ["0 of 4", "2 of 4"]
    assert row_of(text, "1", "pick up")[-2:] == ["1 of 4", "0 of 4"]
    assert row_of(text, "all")[-2:] == ["1 of 8", "2 of 8"]
    assert row_of(text, "libero_spatial", "`--see=grey`")[2] == "1 of 8"


def test_seeds_are_told_of_each_suite_where_they_differ(tmp_path):
    spatial = plan_of({"libero_spatial": 1}, episodes=2, seeds=(7, 8))
    goal = plan_of({"libero_goal": 1}, episodes=2)
    text = tables_of([entry(tmp_path, "one", plan=spatial), entry(tmp_path, "two", plan=goal)])
    assert row_of(text, "libero_spatial")[1] == "7–8"
    assert row_of(text, "libero_goal")[1] == "7"
    assert "seeds" not in played_with([load(tmp_path / "one"), load(tmp_path / "two")])
    assert "seeds" not in tables_of([entry(tmp_path, "three", plan=spatial)])


def test_what_looks_alike_is_told_apart_by_its_folder(tmp_path):
    spatial = plan_of({"libero_spatial": 1}, episodes=2)
    text = tables_of([entry(tmp_path, "one", plan=spatial), entry(tmp_path, "two", plan=spatial)])
    rows = re.findall(r"\| libero_spatial \| (\w+) \|", text)
    assert rows == ["one", "two"]


def test_episodes_without_a_result_are_not_passed_over(tmp_path):
    text = tables_of([entry(tmp_path, "one", plan=PLAN, change=solving(0), failed=(1,))])
    assert row_of(text, "libero_spatial")[1] == "1 of 7 (of 8)"


def test_expected_frames_have_a_table_where_there_are_some(tmp_path):
    def foresee(job, row):
        return replace(row, expected_db=20.0 + 2 * job.episode, copied_db=19.0)

    spatial = plan_of({"libero_spatial": 1}, episodes=3)
    told = tables_of([entry(tmp_path, "one", plan=spatial, change=foresee)])
    (line,) = re.findall(r"\| libero_spatial \| 3 \|.*", told)
    assert line == "| libero_spatial | 3 | 22 | 19 |"
    assert "PSNR" not in tables_of([entry(tmp_path, "two", plan=spatial)])


def test_bars_are_escaped_and_columns_without_text_left_out():
    assert table(("a", "b", "c"), [("1|2", "", "x"), ("3", "", "")]) == (
        "| a | c |\n| --- | --- |\n| 1\\|2 | x |\n| 3 |  |"
    )


def test_only_what_all_share_is_said_of_all(tmp_path):
    one = entry(tmp_path, "one", plan=PLAN)
    said = played_with([one])
    assert "weights 5b5b5b5b5b5b; seeds 7; rpent-box 0.1.0; drawn by osmesa" in said
    meta = replace(META, provenance={"weights_sha256": "77" * 32})
    other = entry(tmp_path, "two", plan=PLAN, worker=replace(WORKER, meta=meta))
    assert "weights" not in played_with([one, other])


def test_a_task_that_was_not_played_by_another_is_a_gap(tmp_path):
    one = entry(tmp_path, "one", plan=plan_of({"libero_spatial": 2}, episodes=2))
    part = entry(tmp_path, "two", plan=plan_of({"libero_spatial": 1}, episodes=2))
    text = tables_of([one, part])
    assert row_of(text, "task")[-1] == "two"
    assert row_of(text, "1", "pick up")[-1] == "—"


@pytest.mark.parametrize("steps", [None, 5])
def test_options_are_what_a_command_line_says(tmp_path, steps):
    plan = replace(PLAN, execute_steps=steps, platform_arguments=("--sentence=name",))
    text = tables_of([entry(tmp_path, "one", plan=plan)])
    options = row_of(text, "libero_goal")[1]
    assert options == "`--sentence=name`" + (" `--execute-steps=5`" if steps else "")
