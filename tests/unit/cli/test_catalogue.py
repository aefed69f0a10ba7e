# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from rpent_box import plugins
from rpent_box.cli.catalogue import Catalogue, Prepared, read_catalogue
from rpent_box.cli.prepared import look_once
from rpent_box.cli.show_catalogue import render_catalogue
from rpent_box.contracts.spaces import ROBOCASA_12
from rpent_box.errors import UnknownName
from rpent_box.launch.recipe import Kind

pytestmark = pytest.mark.usefixtures("only_toy")

TOY_SPACE = "toy.point.delta.v1"


@pytest.fixture
def only_toy(toy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing but the toy installed, so that the texts can be compared."""
    everything = plugins._entries
    monkeypatch.setattr(plugins, "_entries", lambda group: {"toy": everything(group)["toy"]})


def look(kind: Kind, name: str) -> Prepared:
    return Prepared(image="ready" if kind == "backend" else "missing", environment="missing")


def read(**narrowed: str) -> Catalogue:
    return read_catalogue(look, **narrowed)


def test_everything_installed_is_listed_with_what_fits() -> None:
    catalogue = read()
    (backend,), (platform,) = catalogue.backends, catalogue.platforms
    assert (backend.name, backend.platforms) == ("toy", ("toy",))
    assert (platform.name, platform.backends) == ("toy", ("toy",))
    assert platform.action_spaces == backend.action_spaces == (TOY_SPACE,)
    assert [suite.name for suite in platform.suites] == ["toy_easy", "toy_hard", "toy_gone"]
    assert backend.prepared.image == "ready"
    assert platform.prepared.image == "missing"


def test_tasks_are_named_for_one_platform_only() -> None:
    assert read().platforms[0].suites[0].task_names == ()
    assert read(platform="toy").platforms[0].suites[0].task_names == ("reach", "reach_again")


def test_a_suite_narrows_to_itself_with_its_tasks() -> None:
    (suite,) = read(suite="toy_hard").platforms[0].suites
    assert (suite.name, suite.task_names) == ("toy_hard", ("never",))


def test_an_action_space_keeps_what_speaks_it() -> None:
    assert [backend.name for backend in read(space=TOY_SPACE).backends] == ["toy"]
    other = read(space=ROBOCASA_12.id)
    assert (other.backends, other.platforms) == ((), ())


@pytest.mark.parametrize("what", ["platform", "suite", "space"])
def test_an_unknown_name_is_refused_with_what_there_is(what: str) -> None:
    with pytest.raises(UnknownName, match="called nowhere") as caught:
        read(**{what: "nowhere"})
    assert "toy" in caught.value.hint


def test_the_text_says_what_is_prepared_and_what_is_not() -> None:
    text = render_catalogue(read(), in_detail=False)
    assert "prepared    image built, environment not built\n" in text
    assert "prepared    image not built, environment not built (rpent-box build toy)\n" in text
    assert "toy_easy (default)      2            6         40\n" in text
    assert "not here: no files" in text
    assert "Tasks: rpent-box list --platform toy" in text


def test_the_text_for_one_platform_numbers_its_tasks() -> None:
    text = render_catalogue(read(platform="toy"), in_detail=True)
    assert "toy_easy: 2 tasks, 6 initial states each, 40 steps at most\n" in text
    assert "   1  reach_again\n" in text
    assert "toy_gone: not here: no files\n" in text


@pytest.mark.parametrize(
    ("prepared", "said"),
    [
        (Prepared(image="no engine", environment="ready"), "no Docker engine answers, environment"),
        (Prepared(image="stale", environment="ready"), "older than this checkout"),
        (Prepared(image="stale", environment="ready"), "(rpent-box build toy)"),
        (Prepared(image="no recipe", environment="no recipe"), "by whoever installed it"),
    ],
)
def test_the_text_says_how_each_program_is_prepared(prepared: Prepared, said: str) -> None:
    assert said in render_catalogue(read_catalogue(lambda *_: prepared), in_detail=False)


def test_the_toy_has_no_recipe_here() -> None:
    assert look_once()("backend", "toy") == Prepared(image="no recipe", environment="no recipe")
