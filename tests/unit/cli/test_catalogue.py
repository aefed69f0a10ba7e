# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from rpent_box_toy.platform import PLATFORM

from rpent_box import plugins
from rpent_box.cli.catalogue import Catalogue, Prepared, read_catalogue
from rpent_box.cli.prepared import look_once
from rpent_box.cli.show_catalogue import render_catalogue
from rpent_box.contracts.spaces import ROBOCASA_12
from rpent_box.errors import UnknownName
from rpent_box.launch.recipe import Kind
from rpent_box.sim import planning

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
    assert [suite.name for suite in platform.suites] == [suite.name for suite in PLATFORM.suites]
    assert platform.env_fallbacks == {"TOY_ASSETS_PATH": "assets_path"}
    assert (platform.recipe, platform.options["assets_path"]) == (
        "toy",
        "A folder with the toy's pictures.",
    )
    assert backend.prepared.image == "ready"
    assert platform.prepared.image == "missing"


def test_tasks_are_named_for_one_platform_only() -> None:
    assert read().platforms[0].suites[0].task_names == ()
    assert read(platform="toy").platforms[0].suites[0].task_names == ("reach", "reach_again")


def test_a_suite_narrows_to_itself_with_its_tasks() -> None:
    (suite,) = read(suite="toy_hard").platforms[0].suites
    assert (suite.name, suite.task_names) == ("toy_hard", ("never",))


def test_what_each_task_and_state_is_numbered_and_limited_by_is_listed() -> None:
    (suite,) = read(suite="toy_seeded").platforms[0].suites
    assert (suite.task_max_steps, suite.max_steps) == ((30, 60), 40)
    assert (suite.init_states, suite.first_init_state) == (0, 1000)
    (suite,) = read(suite="toy_easy_foggy").platforms[0].suites
    assert (suite.variant_of, suite.task_max_steps) == ("toy_easy", ())


def test_a_platform_that_shares_a_recipe_names_the_one_that_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = replace(PLATFORM, recipe="bricks")
    monkeypatch.setattr("rpent_box.cli.catalogue.installed_platforms", lambda: [shared])
    assert read().platforms[0].recipe == "bricks"
    assert "(rpent-box build bricks)" in render_catalogue(read(), in_detail=False)


def test_the_options_of_a_platform_are_shown_as_they_are_typed() -> None:
    text = render_catalogue(read(platform="toy"), in_detail=True)
    assert "      --toy-assets-path: A folder with the toy's pictures.\n" in text
    assert "      TOY_ASSETS_PATH stands in for --toy-assets-path\n" in text


def test_an_action_space_keeps_what_speaks_it() -> None:
    assert [backend.name for backend in read(space=TOY_SPACE).backends] == ["toy"]
    other = read(space=ROBOCASA_12.id)
    assert (other.backends, other.platforms) == ((), ())


@pytest.mark.parametrize("what", ["platform", "suite", "space"])
def test_an_unknown_name_is_refused_with_what_there_is(what: str) -> None:
    with pytest.raises(UnknownName, match="called nowhere") as caught:
        read(**{what: "nowhere"})
    assert "toy" in caught.value.hint


def test_a_suite_of_another_platform_is_found_there(monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(PLATFORM, name="table", suites=(replace(PLATFORM.suites[0], name="plates"),))
    monkeypatch.setattr(planning, "installed_platforms", lambda: [PLATFORM, other])
    with pytest.raises(UnknownName, match="no suite called plates on toy") as caught:
        read(platform="toy", suite="plates")
    assert caught.value.hint.endswith("rpent-box list --platform table --suite plates")


def test_the_text_says_what_is_prepared_and_what_is_not() -> None:
    text = render_catalogue(read(), in_detail=False)
    assert "prepared    image built, environment not built\n" in text
    assert "prepared    image not built, environment not built (rpent-box build toy)\n" in text
    assert re.search(r"toy_easy \(default\) +2  6 +40$", text, re.MULTILINE)
    assert "not here: no files" in text
    assert "Tasks: rpent-box list --platform toy" in text


def test_the_text_for_one_platform_numbers_its_tasks() -> None:
    text = render_catalogue(read(platform="toy"), in_detail=True)
    assert "toy_easy: 2 tasks, 6 initial states each, 40 steps at most\n" in text
    assert "   1  reach_again\n" in text
    assert "not here: no files\n      toy_gone\n" in text


@pytest.mark.parametrize(
    ("prepared", "said"),
    [
        (
            Prepared(image="ready", environment="ready", variants={"cpu": "missing"}),
            "image built, environment built; cpu image not built\n",
        ),
        (Prepared(image="no engine", environment="ready"), "no Docker engine answers, environment"),
        (Prepared(image="stale", environment="ready"), "older than this checkout"),
        (Prepared(image="stale", environment="ready"), "(rpent-box build toy)"),
        (Prepared(image="no recipe", environment="no recipe"), "by whoever installed it"),
    ],
)
def test_the_text_says_how_each_program_is_prepared(prepared: Prepared, said: str) -> None:
    assert said in render_catalogue(read_catalogue(lambda *_: prepared), in_detail=False)


def with_spec(monkeypatch: pytest.MonkeyPatch, **changes: object) -> Catalogue:
    """Read the catalogue as if the toy backend had declared something else."""
    spec = replace(plugins.find_backend("toy"), **changes)
    monkeypatch.setattr("rpent_box.cli.catalogue.installed_backends", lambda: [spec])
    return read()


def test_the_matrix_says_what_plays_where_and_what_only_lacks_a_plugin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read().matrix == {"toy": {"toy": "fits"}}
    more = with_spec(monkeypatch, platforms=("zoo", "toy", "attic"))
    assert more.matrix == {"toy": {"toy": "fits", "attic": "no plugin", "zoo": "no plugin"}}
    assert more.backends[0].adapters == ("zoo", "toy", "attic")
    text = render_catalogue(more, in_detail=False)
    assert text.startswith(
        "BACKENDS x PLATFORMS\n"
        "       toy  attic      zoo        runs on  weights\n"
        "            no plugin  no plugin\n"
        "  toy  yes  adapter    adapter    cpu\n\n"
        "  adapter: the backend has one; a plugin of that platform makes it a pair.\n"
    )
    assert "fits        toy; has adapters for zoo, attic too\n" in text


def test_the_matrix_tells_an_adapter_from_a_common_action_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert with_spec(monkeypatch, platforms=("zoo",)).matrix["toy"]["toy"] == "no adapter"
    other = with_spec(monkeypatch, action_spaces=(ROBOCASA_12.id,))
    assert other.matrix == {"toy": {"toy": "other action space"}}
    assert re.search(r"^  toy  no +cpu$", render_catalogue(other, in_detail=False), re.MULTILINE)


def test_a_narrowed_catalogue_has_a_narrowed_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    with_spec(monkeypatch, platforms=("toy", "attic"))
    assert read(platform="toy").matrix == {"toy": {"toy": "fits"}}
    assert "BACKENDS x PLATFORMS" not in render_catalogue(read(platform="toy"), in_detail=True)


def test_weights_that_are_not_free_to_use_are_marked_plainly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = render_catalogue(read(), in_detail=False)
    assert "NON-COMMERCIAL" not in text
    marked = render_catalogue(with_spec(monkeypatch, non_commercial=True), in_detail=False)
    assert re.search(r"^  toy  yes  cpu      NON-COMMERCIAL$", marked, re.MULTILINE)
    assert "    weights     NON-COMMERCIAL use only\n" in marked


@pytest.mark.parametrize(
    ("declared", "short", "long"),
    [
        ({}, "cpu", "the CPU"),
        ({"needs_gpu": True}, "gpu", "a GPU"),
        (
            {"needs_gpu": True, "variants": ("cpu",)},
            "gpu, cpu",
            "a GPU; or the CPU, for tests (--device cpu)",
        ),
        (
            {"needs_gpu": True, "borrows": "their_service"},
            "gpu, service",
            "a GPU; or a service that runs already (--their-service)",
        ),
        ({"checkpoint_is": "name"}, "service", "a service computes; the worker itself needs no"),
    ],
)
def test_the_text_says_where_a_model_computes(
    monkeypatch: pytest.MonkeyPatch, declared: dict[str, object], short: str, long: str
) -> None:
    text = render_catalogue(with_spec(monkeypatch, **declared), in_detail=False)
    assert re.search(rf"^  toy  yes  {short}$", text, re.MULTILINE)
    assert f"    runs on     {long}" in text


def test_the_text_says_how_far_a_backend_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    proven = with_spec(monkeypatch, proof="equal to the bit, " * 8)
    text = render_catalogue(proven, in_detail=False)
    assert "    status      equal to the bit" in text
    assert proven.backends[0].proof.startswith("equal")


@pytest.mark.parametrize(
    ("roles", "shown"),
    [
        (("a", "b"), "a, b, 32x32"),
        (("a", "b", "a_4_steps_ago", "b_4_steps_ago", "a_2_steps_ago", "b_2_steps_ago"),
         "a, b, each also 4 and 2 steps ago, 32x32"),
        (("a", "b", "a_4_steps_ago"), "a, b, a_4_steps_ago, 32x32"),
    ],
)  # fmt: skip
def test_what_cameras_showed_before_is_told_in_short(
    monkeypatch: pytest.MonkeyPatch, roles: tuple[str, ...], shown: str
) -> None:
    looking = replace(PLATFORM, meta=replace(PLATFORM.meta, camera_roles=roles))
    monkeypatch.setattr("rpent_box.cli.catalogue.installed_platforms", lambda: [looking])
    assert f"    shows       {shown}\n" in render_catalogue(read(), in_detail=False)


def test_everything_installed_fits_into_a_hundred_columns(
    toy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    text = render_catalogue(read(), in_detail=False)
    assert max(map(len, text.splitlines())) <= 100
    for name in plugins.backend_names():
        assert re.search(rf"^  {name} ", text, re.MULTILINE)


def test_the_toy_has_no_recipe_here() -> None:
    assert look_once()("backend", "toy") == Prepared(image="no recipe", environment="no recipe")


def test_how_a_platform_is_prepared_is_asked_of_the_recipe_that_it_shares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def has_no_recipe(kind: Kind, name: str) -> bool:
        asked.append(name)
        return True

    shared = replace(PLATFORM, name="toy-pro", recipe="toy")
    monkeypatch.setattr("rpent_box.cli.prepared.find_platform", lambda name: shared)
    monkeypatch.setattr("rpent_box.cli.prepared._has_no_recipe", has_no_recipe)
    look_once()("platform", "toy-pro")
    assert asked == ["toy"]
