# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from msgspec.structs import replace
from rpent_box_toy.platform import PLATFORM

from rpent_box.cli.catalogue import PlatformEntry, Prepared, read_catalogue
from rpent_box.cli.show_suites import render_suites, render_suites_in_detail
from rpent_box.sim.platform import Suite

SUITES = {suite.name: suite for suite in PLATFORM.suites}
EASY, SEEDED, GONE = (SUITES[name] for name in ("toy_easy", "toy_seeded", "toy_gone"))


def entry(monkeypatch, *suites: Suite, suite: str | None = None) -> PlatformEntry:
    """Return the toy as it is listed with `suites`, narrowed to one of them if that is named."""
    plugin = replace(PLATFORM, suites=suites or PLATFORM.suites)
    monkeypatch.setattr("rpent_box.cli.catalogue.installed_platforms", lambda: [plugin])
    monkeypatch.setattr("rpent_box.cli.catalogue.find_platform", lambda name: plugin)
    ready = Prepared(image="ready", environment="ready")
    return read_catalogue(lambda *_: ready, platform="toy", suite=suite).platforms[0]


def variants(count: int, of: Suite, **changes) -> list[Suite]:
    return [
        replace(of, name=f"{of.name}_{number}", variant_of=of.name, **changes)
        for number in range(count)
    ]


def test_limits_and_states_of_tasks_are_ranges_in_the_table(monkeypatch):
    text = render_suites(entry(monkeypatch, EASY, SEEDED))
    assert text == (
        "    suite               tasks  init states      max steps\n"
        "    toy_easy (default)      2  6                       40\n"
        "    toy_seeded              2  seeds from 1000   30 to 60\n"
    )


def test_many_variants_take_few_lines(monkeypatch):
    many = variants(20, EASY) + variants(8, SEEDED, max_steps=50, task_max_steps=())
    gone = variants(40, GONE)
    text = render_suites(entry(monkeypatch, EASY, *many, *gone))
    lines = text.splitlines()
    assert len(lines) < 12
    assert max(map(len, lines)) <= 100
    assert "    variants of toy_easy (2 tasks, 6 init states, 40 steps at most)" in lines
    assert "    variants of toy_seeded (2 tasks, seeds from 1000, 50 steps" in text
    assert "not here: 40 variants, see rpent-box list --platform toy" in text
    for suite in many:
        assert suite.name in text.replace("\n", " ")


def test_the_default_suite_is_marked_among_variants_too(monkeypatch):
    text = render_suites(entry(monkeypatch, replace(EASY, variant_of="easy")))
    assert text.splitlines()[-1] == "      toy_easy (default)"


def test_in_detail_suites_of_the_same_tasks_are_told_once(monkeypatch):
    windy = replace(SEEDED, name="toy_windy")
    text = render_suites_in_detail(entry(monkeypatch, EASY, SEEDED, windy))
    head = "    toy_seeded, toy_windy: 2 tasks, scenes by seed from 1000, 30 to 60 steps at most\n"
    assert head + "       0  near (30 steps)\n       1  far (60 steps)\n" in text
    assert "    toy_easy: 2 tasks, 6 initial states each, 40 steps at most\n" in text
    assert text.count("near") == 1


def test_in_detail_variants_are_named_and_their_tasks_are_a_command_away(monkeypatch):
    text = render_suites_in_detail(entry(monkeypatch, EASY, *variants(3, EASY)))
    assert text.count("reach_again") == 1
    assert "      toy_easy_0, toy_easy_1, toy_easy_2\n" in text
    assert "tasks of a variant: rpent-box list --platform toy --suite NAME\n" in text


def test_the_tasks_of_a_variant_that_is_asked_for_are_listed(monkeypatch):
    text = render_suites_in_detail(entry(monkeypatch, suite="toy_easy_foggy"))
    assert "toy_easy_foggy: a variant of toy_easy, 2 tasks, 6 initial states each" in text
    assert "       1  reach_again\n" in text


def test_what_is_not_here_is_told_by_its_reason(monkeypatch):
    gone = variants(3, GONE, unavailable="the meshes are not in the wheel")
    text = render_suites_in_detail(entry(monkeypatch, EASY, GONE, *gone))
    assert "    not here: no files\n      toy_gone\n" in text
    assert (
        "    not here: the meshes are not in the wheel\n"
        "      toy_gone_0, toy_gone_1, toy_gone_2\n" in text
    )
    alone = render_suites_in_detail(entry(monkeypatch, suite="toy_gone"))
    assert alone == "\n    not here: no files\n      toy_gone\n"


def test_states_that_are_numbered_from_elsewhere_say_so(monkeypatch):
    later = replace(EASY, first_init_state=100)
    text = render_suites_in_detail(entry(monkeypatch, later))
    assert "6 initial states each from 100, " in text
