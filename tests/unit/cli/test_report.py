# SPDX-License-Identifier: Apache-2.0
"""`report` and `compare`: files, text, JSON and exit codes."""

from __future__ import annotations

import json
import sys

import pytest
from fabricated_runs import META, WORKER, fabricate_evaluation, fabricate_run, plan_of
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from rpent_box.cli.app import app

PLAN = plan_of({"libero_spatial": 2}, episodes=10)


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def a(tmp_path):
    return fabricate_evaluation(tmp_path, "20261130T095000Z-a", plan=PLAN)


@pytest.fixture
def b(tmp_path):
    worker = replace(WORKER, meta=replace(META, checkpoint="step_30000"))
    return fabricate_evaluation(tmp_path, "b", plan=PLAN, skill=0.2, salt="b", worker=worker)


def test_a_report_lies_in_its_run_and_is_told_where(a):
    done = call("report", a)
    assert done.exit_code == 0, done.output
    assert (a / "report.html").read_text().startswith("<!doctype html>")
    assert f"report       {a / 'report.html'}" in done.stdout
    assert "libero_spatial  20/20" in done.stdout
    assert [path.name for path in a.glob(".*.partial")] == []


def test_a_report_of_less_than_was_asked_for_says_so(tmp_path):
    less = fabricate_evaluation(tmp_path, "less", plan=PLAN, failed=(1, 2))
    assert "2 of 20 have no result; rates are of the others" in call("report", less).stdout
    whole = fabricate_evaluation(tmp_path, "whole", plan=PLAN)
    assert "no result" not in call("report", whole).stdout
    assert "of 18 solved (20 asked for): less" in call("compare", less, whole).stdout


def test_a_report_of_several_lies_in_the_current_folder_and_changes_no_run(
    a, b, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    done = call("report", a, b)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "report.html").is_file()
    assert not (a / "report.html").exists()
    assert "A  20261130T095000Z-a" in done.stdout
    assert "B  b" in done.stdout


def test_everything_is_written_where_it_was_asked_for(a, tmp_path):
    page, csv, parquet = (tmp_path / name for name in ("page.html", "rows.csv", "rows.parquet"))
    done = call("report", a, "-o", page, "--csv", csv, "--parquet", parquet)
    assert done.exit_code == 0, done.output
    assert len(csv.read_text().splitlines()) == 21
    assert parquet.read_bytes()[:4] == b"PAR1"
    assert not (a / "report.html").exists()
    for path in (page, csv, parquet):
        assert str(path) in done.stdout


def test_nothing_is_written_where_one_of_the_files_has_no_folder(a, tmp_path):
    done = call(
        "report", a, "--csv", tmp_path / "rows.csv", "--parquet", tmp_path / "no/rows.parquet"
    )
    assert done.exit_code == 1
    assert f"there is no folder {tmp_path / 'no'}" in done.stderr
    assert not (a / "report.html").exists()
    assert not (tmp_path / "rows.csv").exists()


def test_a_report_as_json_has_every_figure(a, b, tmp_path):
    done = call("report", a, b, "-o", tmp_path / "page.html", "--json")
    found = json.loads(done.stdout)
    first, second = found["results"]
    assert first["folders"] == [str(a)]
    assert first["figures"]["total"]["done"] == 20
    assert first["figures"]["suites"][0]["tasks"][1]["task"] == 1
    assert second["setup"]["deciding"]["worker.meta.checkpoint"] == "step_30000"
    assert found["comparison"]["total"]["pairs"] == 20
    assert found["csv"] is None


def test_a_comparison_tells_verdict_tasks_scenes_and_setup(a, b, tmp_path):
    page = tmp_path / "compared.html"
    done = call("compare", a, b, "--html", page)
    assert done.exit_code == 0, done.output
    assert "They differ. B's success rate is" in " ".join(done.stdout.split())
    assert "libero_spatial 1" in done.stdout
    assert "20 of 20 pairs begin with the same frames" in done.stdout
    assert "worker.meta.checkpoint  built-in  step_30000" in done.stdout
    assert "Do they differ?" in page.read_text()


def test_a_comparison_as_json_names_what_was_not_compared(a, tmp_path):
    short = fabricate_evaluation(tmp_path, "short", plan=PLAN, played=18)
    found = json.loads(call("compare", a, short, "--json").stdout)
    assert found["verdict"] == "no difference shown"
    assert found["only_in_a"] == [["libero_spatial", 1, 8, 7], ["libero_spatial", 1, 9, 7]]
    assert found["same"]["actions"] == 18


def test_two_without_a_common_episode_are_not_compared(a, tmp_path):
    other = fabricate_evaluation(tmp_path, "other", plan=plan_of({"libero_object": 1}, episodes=2))
    done = call("compare", a, other)
    assert done.exit_code == 1
    assert "no episode in common" in done.stdout
    assert "only in B" in done.stdout


@pytest.mark.parametrize("command", ["report", "compare"])
def test_what_is_no_run_is_wrong_usage(command, a, tmp_path):
    words = [a] if command == "compare" else []
    done = call(command, *words, tmp_path)
    assert done.exit_code == 2
    assert "neither run.json nor eval.json" in done.stderr
    assert "20261130T095000Z-a" in done.stderr


def test_an_error_as_json_is_one_object(tmp_path):
    done = call("report", tmp_path / "nowhere", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"]["code"] == "bad_option"


def test_files_that_cannot_be_read_are_no_wrong_usage(a):
    (a / "results.jsonl").write_text("{}\n")
    done = call("report", a)
    assert done.exit_code == 1
    assert "line 1, is not an episode" in done.stderr
    assert not (a / "report.html").exists()


def test_a_folder_that_is_not_there_is_named(a, tmp_path):
    done = call("report", a, "-o", tmp_path / "absent" / "page.html")
    assert done.exit_code == 1
    assert f"there is no folder {tmp_path / 'absent'}" in done.stderr


def test_a_folder_in_the_way_is_told_and_nothing_is_left(a, tmp_path):
    done = call("report", a, "-o", tmp_path)
    assert done.exit_code == 1
    assert "is a folder" in done.stderr
    assert list(tmp_path.glob(".*partial")) == []


def test_an_older_report_is_replaced_whole(a):
    (a / "report.html").write_text("old")
    assert call("report", a).exit_code == 0
    first = (a / "report.html").read_bytes()
    assert call("report", a).exit_code == 0
    assert (a / "report.html").read_bytes() == first


def test_without_pyarrow_the_command_says_what_to_install_and_writes_nothing(
    a, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = call("report", a, "--parquet", tmp_path / "rows.parquet")
    assert done.exit_code == 1
    assert "pip install 'rpent-box[parquet]'" in done.stderr
    assert not (a / "report.html").exists()


def test_a_terminal_gets_nothing_that_it_would_obey(tmp_path):
    path = fabricate_run(tmp_path, "run")
    text = (path / "run.json").read_text()
    (path / "run.json").write_text(text.replace('"run": "run"', '"run": "r\\u001b[2Jun"'))
    done = call("report", path)
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.stdout
    assert "r\N{REPLACEMENT CHARACTER}[2Jun" in done.stdout
