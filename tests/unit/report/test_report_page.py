# SPDX-License-Identifier: Apache-2.0
"""The page holds the figures, asks nobody for anything, and prints hostile text as text."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections import Counter
from html.parser import HTMLParser

import msgspec
import pytest
from fabricated_runs import (
    META,
    WORKER,
    fabricate_evaluation,
    fabricate_run,
    plan_of,
    restart,
    session_of,
)
from msgspec.structs import replace
from tiny_media import PICTURE, VIDEO

from rpent_box.evaluate.scale.manifest import FailedAttempt
from rpent_box.report import words
from rpent_box.report.compare import compare
from rpent_box.report.figures import figures_of
from rpent_box.report.html import render_comparison, render_report
from rpent_box.report.load import load_entries, load_pair

PLAN = plan_of({"libero_spatial": 3, "libero_object": 2}, episodes=6)
HOSTILE = "</script></style>'\"><img src=x onerror=alert(1)><script>alert(2)</script>{{ 7*7 }}&amp;"
VOID = {"meta", "link", "img", "wbr", "br"}


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, text, and that all are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.style = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        if self._open and self._open[-1] == "style":
            self.style += data
        else:
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def folder(tmp_path):
    files = {"episode.mp4": VIDEO, "episode.jpg": PICTURE}
    return fabricate_evaluation(tmp_path, "one", plan=PLAN, failed=(3,), files=files)


def page_of(*folders, **options) -> Page:
    entries = load_entries(folders)
    return Page(render_report(entries, folders[0] / "report.html", **options))


def test_every_task_suite_and_total_is_printed_as_it_was_computed(folder):
    (entry,) = load_entries([folder])
    page = page_of(folder)
    found = figures_of(entry)
    for suite in found.suites:
        for one in (suite, *suite.tasks, found.total):
            assert words.percent(one.success_rate) in page.text
            assert words.interval(one.success_interval) in page.text
    total = found.total
    assert "1 of 30 has no result" in page.text
    assert "1 episode of 30 has no result; it ended in an error." in page.text
    least, most = words.percent(total.successes / 30), words.percent((total.successes + 1) / 30)
    assert f"of all 30, between {least} and {most} are solved" in page.text
    assert "libero_spatial 0: init state 3, seed 7" in page.text
    assert "rpent-box eval --resume one" in page.text


def test_a_command_may_be_pasted_whatever_the_folder_is_called(tmp_path):
    path = fabricate_evaluation(tmp_path, "a; echo 'b", plan=PLAN, played=3, run="$(echo c)")
    commands = [line for line in page_of(path).text.splitlines() if "eval --resume" in line]
    assert [shlex.split(line.removeprefix("To go on: ")) for line in commands] == [
        ["rpent-box", "eval", "--resume", "a; echo 'b"]
    ]


def test_several_results_and_their_comparison_say_what_is_missing(tmp_path):
    a = fabricate_evaluation(tmp_path, "a", plan=PLAN, failed=(3, 4))
    b = fabricate_evaluation(tmp_path, "b", plan=PLAN, skill=0.5, salt="b")
    page = page_of(a, b)
    assert re.search(r"\d+/28 of 30\b", page.text)
    assert page.text.count("2 of 30 have no result") == 2


def test_figures_of_a_sitting_that_never_ended_are_said_to_be_the_last_noted(tmp_path, folder):
    (row, *_) = load_entries([folder])[0].folders[0].rows
    cut = replace(session_of([row]), ended_at=None, ended="")
    killed = fabricate_evaluation(tmp_path, "killed", plan=PLAN, played=1, sessions=(cut,))
    assert "as far as they were last noted down" in page_of(killed).text
    assert "last noted down" not in page_of(folder).text


def test_the_same_folder_gives_the_same_bytes(folder):
    first, again = (render_report(load_entries([folder]), folder / "report.html") for _ in range(2))
    assert first == again


def test_nothing_is_asked_of_anybody(folder):
    page = page_of(folder)
    for tag, attributes in page.elements:
        for name in ("src", "poster"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, name)
        if tag == "link":
            assert attributes["href"] == "data:,"
        if tag == "a":
            assert not re.match(r"[a-z]+:|//", attributes["href"])
    assert {"script", "iframe", "object", "embed", "form", "base"}.isdisjoint(
        tag for tag, _ in page.elements
    )
    assert "@import" not in page.style
    assert "url(" not in page.style


def test_the_policy_allows_this_style_and_nothing_else(folder):
    page = page_of(folder)
    (policy,) = [
        one["content"]
        for one in page.all("meta")
        if one.get("http-equiv") == "Content-Security-Policy"
    ]
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert policy.split("; ")[:4] == [
        "default-src 'none'",
        "img-src data:",
        "media-src data:",
        f"style-src 'sha256-{digest}'",
    ]
    assert not any("style" in attributes for _, attributes in page.elements)


def hostile_folder(tmp_path, name="one"):
    hostile_plan = replace(
        PLAN, tasks=tuple(replace(task, name=HOSTILE + str(task.task)) for task in PLAN.tasks)
    )

    def change(job, row):
        return replace(
            row,
            instruction=HOSTILE,
            success=job.episode % 2 == 0,
            stages_s={**row.stages_s, HOSTILE: 3.0},
            remarks={HOSTILE: 1},
            restarts=(replace(restart(), reason=HOSTILE, phase=HOSTILE, log=HOSTILE),),
            video_error=HOSTILE,
            video=HOSTILE,
            thumbnail=HOSTILE,
            simulator=HOSTILE,
        )

    meta = replace(META, backend=HOSTILE, checkpoint=HOSTILE, provenance={HOSTILE: HOSTILE})
    session = replace(session_of([]), command=(HOSTILE,), launcher_why=HOSTILE, ended=HOSTILE)
    session = replace(
        session,
        places=tuple(
            replace(one, name=HOSTILE, envs_why=HOSTILE, simulators_s={HOSTILE: 1.0})
            for one in session.places
        ),
    )
    path = fabricate_evaluation(
        tmp_path,
        name,
        plan=hostile_plan,
        change=change,
        failed=(2,),
        run=HOSTILE,
        error=HOSTILE,
        worker=replace(WORKER, meta=meta),
        sessions=(session,),
    )
    line = (path / "failed.jsonl").read_bytes()
    failed = replace(
        msgspec.json.decode(line, type=FailedAttempt),
        code=HOSTILE,
        message=HOSTILE,
        hint=HOSTILE,
        at=HOSTILE,
    )
    (path / "failed.jsonl").write_bytes(msgspec.json.encode(failed) + b"\n")
    return path


def test_hostile_text_is_text(tmp_path):
    path = hostile_folder(tmp_path)
    page = page_of(path)
    tags = Counter(tag for tag, _ in page.elements)
    assert tags["script"] == tags["img"] == 0
    for _, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes)
        assert set("'\"<>").isdisjoint("".join(attributes))
    assert page.text.count(HOSTILE) > 100
    assert "49" not in re.findall(r"\{\{.*?\}\}|>49<", page.text)


def test_hostile_text_is_text_in_a_comparison(tmp_path):
    a, b = hostile_folder(tmp_path), fabricate_evaluation(tmp_path, "b", plan=PLAN)
    for text in (
        render_comparison(compare(*load_pair(a, b))),
        render_report(load_entries([a, b]), tmp_path / "report.html"),
    ):
        page = Page(text)
        assert not page.all("script")
        assert not any(name.startswith("on") for _, each in page.elements for name in each)
        assert HOSTILE in page.text


def test_every_table_has_a_caption_and_headers_and_every_chart_a_description(folder):
    page = page_of(folder)
    names = Counter(tag for tag, _ in page.elements)
    assert names["table"] == names["caption"] > 8
    assert all(one.get("scope") in ("row", "col") for one in page.all("th"))
    charts = page.all("svg")
    assert len(charts) > 12
    assert all(one["role"] == "img" and len(one["aria-label"]) > 5 for one in charts)
    assert all(one["alt"] for one in page.all("img"))
    (html,) = page.all("html")
    assert html["lang"] == "en"
    assert names["h1"] == names["main"] == 1


def test_ids_are_unique_and_links_lead_to_them(folder, tmp_path):
    other = fabricate_evaluation(tmp_path, "two", plan=PLAN, skill=0.5, salt="b")
    for page in (page_of(folder), page_of(folder, other)):
        ids = [attributes["id"] for _, attributes in page.elements if attributes.get("id")]
        assert len(ids) == len(set(ids))
        links = {one["href"][1:] for one in page.all("a") if one["href"].startswith("#")}
        assert links <= set(ids)
        labels = {each["aria-labelledby"] for _, each in page.elements if "aria-labelledby" in each}
        assert labels <= set(ids)


def test_two_results_are_compared_and_both_are_shown(folder, tmp_path):
    other = fabricate_evaluation(tmp_path, "two", plan=PLAN, skill=0.5, salt="b")
    page = page_of(folder, other)
    comparison = compare(*load_entries([folder, other]))
    assert comparison.sentence in page.text
    ids = {attributes.get("id") for _, attributes in page.elements}
    assert {"compared", "a-success", "b-success", "a-setup", "b-setup"} <= ids
    assert words.probability(comparison.total.p) in page.text


def test_three_results_stand_side_by_side(folder, tmp_path):
    others = [
        fabricate_evaluation(tmp_path, f"{n}", plan=PLAN, skill=n / 4, salt=f"{n}") for n in (1, 2)
    ]
    page = page_of(folder, *others)
    ids = {attributes.get("id") for _, attributes in page.elements}
    assert {"a-success", "b-success", "c-success"} <= ids
    assert "compared" not in ids


def test_failures_of_which_nothing_was_recorded_are_named(tmp_path):
    plan = plan_of({"libero_spatial": 1}, episodes=3)
    page = page_of(fabricate_evaluation(tmp_path, "one", plan=plan, skill=0.0))
    assert "No picture and no video of them is there" in page.text
    assert "init states 0–2, seed 7" in page.text
    assert not [each for _, each in page.elements if each.get("class") == "card"]


def test_a_run_has_a_report_too(tmp_path):
    page = page_of(fabricate_run(tmp_path, "run"))
    assert "mini-wam on libero" in page.text
    assert "worker" not in {attributes.get("id") for _, attributes in page.elements}


def test_an_evaluation_in_which_nothing_was_played_has_a_report(tmp_path):
    path = fabricate_evaluation(
        tmp_path,
        "one",
        plan=PLAN,
        played=0,
        status="failed",
        error="ProgramDied: the worker ended",
        worker=None,
        simulator=None,
        checkpoint=None,
        sessions=(),
    )
    page = page_of(path)
    assert "30 episodes of 30 have no result." in page.text
    assert "are solved, depending" not in page.text
    assert "It ended with: ProgramDied: the worker ended" in page.text
    assert "ProgramDied: the worker ended" in page.text


def test_a_comparison_alone_says_what_was_not_compared(tmp_path):
    a = fabricate_evaluation(tmp_path, "a", plan=PLAN)
    b = fabricate_evaluation(tmp_path, "b", plan=plan_of({"libero_spatial": 1}, episodes=9))
    page = Page(render_comparison(compare(*load_pair(a, b))))
    assert "A: libero_object 1" in page.text
    assert "init states 6–8, seed 7" in page.text
