# SPDX-License-Identifier: Apache-2.0
"""The platforms' conformance suite finds what it looks for: a fault of each kind, in a platform
that has no other."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from rpent_box_faulty import faults, plugins

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SUPPORT = ROOT / "tests" / "support" / "platforms"
SOUND = plugins.NAMES[0]

FOUND_BY = {
    "anonymous": "test_it_runs_as_declared",
    "counts-resets": "test_a_second_reset_shows_the_same",
    "stuck": "test_each_of_its_controls_moves_the_robot",
    "asks": "test_it_plays_without_standard_input_and_home",
    "needs-a-home": "test_it_plays_without_standard_input_and_home",
    "ages": "test_each_life_shows_the_same_scene",
    "remembers": "test_a_scene_does_not_depend_on_what_was_played",
    "unseeded": "test_equal_actions_have_equal_consequences",
    "settles": "test_a_chunk_equals_its_rows_one_by_one",
    "one-buffer": "test_what_was_shown_is_not_changed_afterwards",
    "upside-down": "test_frames_are_upright_and_in_rgb",
    "mirrored": "test_frames_are_upright_and_in_rgb",
    "blue-first": "test_frames_are_upright_and_in_rgb",
    "a-view": "test_a_scene_shows_what_the_meta_promises",
    "black": "test_a_scene_shows_what_the_meta_promises",
    "cut": "test_a_scene_shows_what_the_meta_promises",
    "doubles": "test_a_scene_shows_what_the_meta_promises",
    "millimetres": "test_what_it_measures_is_plausible",
    "half-quaternion": "test_what_it_measures_is_plausible",
    "wordless": "test_a_scene_shows_what_the_meta_promises",
    "primary-only": "test_each_camera_and_measurement_can_be_asked_for_alone",
    "any-control": "test_a_control_of_another_robot_is_refused_and_changes_nothing",
    "any-actions": "test_bad_actions_are_refused_and_change_nothing",
    "notices-late": "test_bad_actions_are_refused_and_change_nothing",
    "solved-at-once": "test_nothing_is_solved_at_the_start_and_every_row_is_counted",
    "miscounts": "test_nothing_is_solved_at_the_start_and_every_row_is_counted",
    "timeless": "test_time_is_split_into_simulating_and_drawing",
    "from-behind": "test_an_unknown_scene_is_refused_by_name",
    "plays-nothing": "test_a_suite_that_cannot_be_played_is_refused",
    "no-past": "test_a_frame_of_earlier_steps_is_what_was_shown_then",
    "replay-upside-down": "test_an_episode_can_be_drawn_again_and_leaves_no_trace",
    "replay-too-much": "test_an_episode_can_be_drawn_again_and_leaves_no_trace",
    "drifted": "test_physics_and_pixels_are_what_was_recorded_even_without_assets",
    "acts-early": "test_acting_before_the_first_reset_is_an_error_in_words",
    "prints": "test_it_prints_nothing",
    "leaks": "test_closing_frees_memory",
    "thread": "test_closing_ends_threads_and_closes_files",
    "open-file": "test_closing_ends_threads_and_closes_files",
    "context": "test_closing_frees_gl_contexts",
    "leaves-a-file": "test_it_leaves_no_files",
    "writes-here": "test_it_leaves_no_files",
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Test → what came of it, per platform: `passed`, `failed`, `skipped`."""
    folder = tmp_path_factory.mktemp("faulty")
    packages = folder / "rpent_box_faulty-0.1.dist-info"
    packages.mkdir()
    (packages / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: rpent-box-faulty\nVersion: 1\n"
    )
    (packages / "entry_points.txt").write_text(plugins.entry_points())
    report = folder / "report.xml"
    paths = [str(folder), str(ROOT), str(SUPPORT), *(path for path in sys.path if path)]
    # Those that start a process and have one answer for all of them.
    chosen = f"{SOUND} or faulty-drifted or (faulty and not quick and not recorded)"
    done = subprocess.run(
        [
            # Where CI is set, pytest would explain each difference of frames in full: minutes.
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--assert=plain"),
            *("-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}"),
            *("-p", "platform_frames_of_faulty", f"--junitxml={report}", "-k", chosen),
            *(str(HERE / f"test_platform_{part}.py") for part in ("conformance", "process")),
        ],
        # Some of them leave files where they stand, or where temporary ones go.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(folder)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert report.is_file(), done.stdout + done.stderr
    return read_outcomes(report)


def test_a_sound_platform_passes(outcomes: dict[str, dict[str, str]]) -> None:
    assert "passed" in outcomes[SOUND].values()
    wrong = {name: what for name, what in outcomes[SOUND].items() if what == "failed"}
    assert wrong == {}


@pytest.mark.parametrize("fault", faults.FAULTS)
def test_a_fault_is_found(fault: str, outcomes: dict[str, dict[str, str]]) -> None:
    found = outcomes[f"faulty-{fault}"]
    assert found[FOUND_BY[fault]] == "failed", found


def read_outcomes(report: Path) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name, _, rest = case.get("name", "").partition("[")
        bad = case.find("failure") is not None or case.find("error") is not None
        skipped = case.find("skipped") is not None
        what = "failed" if bad else "skipped" if skipped else "passed"
        found.setdefault(rest.rstrip("]"), {})[name] = what
    return found
