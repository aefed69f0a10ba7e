# SPDX-License-Identifier: Apache-2.0
"""pi05's adapter beside openpi itself, in an environment with openpi's packages."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from upstream_goldens import Case, golden_cases, golden_json

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests/support/pi05"
VARIABLE = "RPENT_BOX_PI05_PYTHON"
HOW = (
    "rpent-box build pi05 --variant cpu --launcher process, then "
    f"{VARIABLE}=<the Python it prints> pytest tests/upstream/test_pi05_upstream.py"
)
TIMEOUT_S = 280

pytestmark = pytest.mark.upstream


class Answers:
    """What openpi said."""

    def __init__(self, folder: Path) -> None:
        self.facts: dict[str, Any] = json.loads((folder / "answers.json").read_text())
        with np.load(folder / "answers.npz", allow_pickle=False) as stored:
            self.arrays: dict[str, NDArray[Any]] = {name: stored[name] for name in stored.files}

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"no environment with openpi is named; run: {HOW}")
    folder = tmp_path_factory.mktemp("openpi")
    recorded = {
        f"{case.name}/{field}": array
        for case in golden_cases("pi05_libero")
        for field, array in case.arrays.items()
    }
    np.savez(folder / "cases.npz", prompts=json.dumps(golden_json("pi05_prompt_text")), **recorded)
    done = subprocess.run(
        [
            python,
            str(SUPPORT / "pi05_upstream.py"),
            str(folder / "cases.npz"),
            str(folder),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return Answers(folder)


def cases() -> list[Case]:
    return golden_cases("pi05_libero")


def test_openpi_sees_the_frames_that_were_recorded_and_black_for_a_third(answers: Answers) -> None:
    for case in cases():
        assert np.array_equal(answers[f"{case.name}/image"], case["image"]), case.name
        assert np.array_equal(answers[f"{case.name}/wrist_image"], case["wrist_image"]), case.name
        assert (answers[f"{case.name}/third_image"] == 0).all()
        masks = answers.facts["cases"][case.name]
        assert {name: masks[name] for name in case.facts["image_masks"]} == case.facts[
            "image_masks"
        ]


def test_openpi_normalises_our_state_as_it_was_recorded(answers: Answers) -> None:
    for case in cases():
        wide = case["state_in"].dtype == np.float64
        np.testing.assert_allclose(
            answers[f"{case.name}/model_state"],
            case["model_state"],
            rtol=1e-12 if wide else 1e-6,
            atol=1e-12 if wide else 1e-6,
            err_msg=case.name,
        )


def test_openpi_gives_back_the_actions_that_were_recorded(answers: Answers) -> None:
    for case in cases():
        actions = answers[f"{case.name}/actions"]
        assert actions.dtype == np.float64
        np.testing.assert_allclose(actions, case["actions"], rtol=1e-12, atol=1e-15)


def test_openpi_starts_from_our_noise_with_our_number_of_steps(answers: Answers) -> None:
    for case in cases():
        noise = answers[f"{case.name}/noise"]
        assert noise.shape == (10, 32)
        assert noise.dtype == np.float32
        wanted = np.random.default_rng(0).standard_normal((10, 32), dtype=np.float32)
        assert np.array_equal(noise, wanted)
        assert answers.facts["cases"][case.name]["num_steps_7"]


def test_openpis_tokenizer_makes_of_prompts_what_was_recorded(answers: Answers) -> None:
    recorded = golden_json("pi05_prompt_text")
    for case, encoded in zip(recorded, answers.facts["prompts"], strict=True):
        assert encoded == case["encoded"], case["case"]


def test_an_instruction_reaches_the_vocabulary_trimmed_by_openpi_alone(answers: Answers) -> None:
    recorded = golden_json("pi05_prompt_text")
    for case, encoded in zip(recorded, answers.facts["passed"], strict=True):
        trimmed = case["prompt"].strip().replace("_", " ").replace("\n", " ")
        assert encoded == [[trimmed, True], ["\n", False]]
        if case["state"] is None:
            assert encoded == case["encoded"]


def test_the_same_moment_gives_the_same_actions_bit_for_bit(answers: Answers) -> None:
    for name in ("again", "other_load", "after_three_steps"):
        assert np.array_equal(answers[name], answers["plain"]), name


@pytest.mark.parametrize(
    "changed", ["next_chunk", "other_seed", "three_steps", "other_words", "other_frame"]
)
def test_what_the_model_is_given_moves_the_actions(answers: Answers, changed: str) -> None:
    assert answers["plain"].shape == (5, 7)
    assert np.isfinite(answers[changed]).all()
    assert np.abs(answers[changed] - answers["plain"]).max() > 1e-5


def test_libero_models_ignore_the_state_and_others_read_it(answers: Answers) -> None:
    assert np.array_equal(answers["moved"], answers["plain"])
    assert np.abs(answers["state_moved"] - answers["state_plain"]).max() > 1e-5


def test_our_frames_equal_those_of_openpis_own_image_tools(answers: Answers) -> None:
    from rpent_box.backends.pi05.adapter.images import resize_with_pad

    names = [name for name in answers.arrays if name.startswith("resize_") and name.endswith("_in")]
    assert len(names) >= 7
    for name in names:
        wanted = answers[name.removesuffix("_in") + "_out"]
        assert np.array_equal(resize_with_pad(answers[name], "primary"), wanted), name


def test_openpis_scaling_limits_nothing_and_is_undone_where_there_is_no_range(
    answers: Answers,
) -> None:
    actions, scaled = answers["trip_actions"], answers["trip_scaled"]
    ranged = [0, 1, 3, 4, 5]
    np.testing.assert_allclose(scaled[0, ranged], -1.0, atol=1e-12)
    np.testing.assert_allclose(scaled[1, ranged], 1.0, atol=1e-5)
    assert np.abs(scaled[2:, ranged]).max() > 1.5
    assert np.isfinite(scaled).all()
    np.testing.assert_allclose(answers["trip_back"], actions, rtol=1e-9, atol=1e-9)


def test_the_sizes_that_inspection_wants_are_those_of_openpis_own_network(answers: Answers) -> None:
    from rpent_box.backends.pi05.configs import KNOWN_CONFIGS

    shapes = answers.facts["shapes"]
    for name, known in KNOWN_CONFIGS.items():
        assert shapes[f"{name}.action_horizon"] == [known.action_horizon]
        for tensor, shape in known.tensors.items():
            assert shapes[tensor] == list(shape), tensor


def test_a_configuration_that_does_not_exist_is_named(answers: Answers) -> None:
    assert "tiny_libra" in answers.facts["missing"]
    assert "--config-file" in answers.facts["missing"]
