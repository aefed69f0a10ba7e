# SPDX-License-Identifier: Apache-2.0
"""The weights that ship, in onnxruntime."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'rpent-box[mini-wam]'")

from mini_wam_golden import golden_answer, golden_observation, predict, shipped
from msgspec.structs import replace

from rpent_box.backends.mini_wam.manifest import FUTURE_FILE, WEIGHTS_FILE, read_checkpoint
from rpent_box.backends.mini_wam.model import BUILT_IN
from rpent_box.contracts.checks import check_actions, check_observation
from rpent_box.contracts.observation import Image, Observation
from rpent_box.worker.backend import PredictionInput


def test_the_weights_are_small_and_whole() -> None:
    sizes = [(BUILT_IN / file).stat().st_size for file in (WEIGHTS_FILE, FUTURE_FILE)]
    assert sum(sizes) < 10e6
    manifest = read_checkpoint(BUILT_IN, platforms=["libero"], name="built-in").manifest
    assert manifest.licence == "Apache-2.0"
    own_names = [
        text for text in manifest.instructions if text.startswith("pick up the black bowl")
    ]
    assert len(own_names) == 10, "libero_spatial, by the tasks' names"
    for task in range(10):
        assert f"libero_spatial-{task} " in manifest.data["rows_by_lesson"]


def test_the_golden_scene_gets_the_golden_answer() -> None:
    answer = golden_answer()
    model = shipped(predict_future=True)
    assert model.meta.provenance["weights_sha256"] == answer["weights_sha256"]
    chunk = predict(model, golden_observation())
    assert np.abs(chunk.actions - np.array(answer["actions"])).max() < 1e-5
    assert chunk.value == pytest.approx(answer["value"], abs=1e-5)
    assert chunk.future_observation is not None
    future = chunk.future_observation["primary"]
    assert float(future.mean()) == pytest.approx(answer["future_mean"], abs=0.01)
    corner = future[:2, :2].astype(int) - np.array(answer["future_corner"])
    assert np.abs(corner).max() <= 1


def test_two_loads_and_two_calls_answer_alike() -> None:
    model = shipped()
    first = predict(model, golden_observation()).actions
    assert np.array_equal(predict(model, golden_observation()).actions, first)
    assert np.array_equal(predict(shipped(), golden_observation()).actions, first)


def test_asking_for_the_future_does_not_change_the_actions() -> None:
    with_future = predict(shipped(predict_future=True), golden_observation()).actions
    assert np.array_equal(predict(shipped(), golden_observation()).actions, with_future)


def test_a_full_batch_answers_as_one_by_one() -> None:
    model = shipped(predict_future=True)
    requests = [
        PredictionInput(observation=varied(number), session=str(number))
        for number in range(model.meta.max_batch)
    ]
    alone = [model.predict(request) for request in requests]
    for together in (model._together(requests), model.predict_batch(requests)):
        for one, many in zip(alone, together, strict=True):
            assert np.abs(one.actions - many.actions).max() < 1e-5
            assert one.value == pytest.approx(many.value, abs=1e-5)
    assert np.abs(alone[0].actions - alone[5].actions).max() > 1e-3


def test_the_answer_depends_on_both_frames_and_on_the_hand() -> None:
    shown = golden_observation()
    model = shipped()
    usual = predict(model, shown).actions
    moved = {**shown.proprio, "eef_position": shown.proprio["eef_position"] + np.float32(0.05)}
    changes = [
        replace(shown, images={**shown.images, "primary": grey(shown.images["primary"])}),
        replace(shown, images={**shown.images, "wrist": grey(shown.images["wrist"])}),
        replace(shown, proprio=moved),
    ]
    for changed in changes:
        assert np.abs(predict(model, changed).actions - usual).max() > 0.01


def test_upside_down_frames_get_another_answer() -> None:
    shown = golden_observation()
    flipped = {role: np.ascontiguousarray(image[::-1]) for role, image in shown.images.items()}
    model = shipped()
    change = predict(model, replace(shown, images=flipped)).actions
    assert np.abs(change - predict(model, shown).actions).max() > 0.1


def test_the_golden_instruction_is_known_and_the_observation_fits_the_meta() -> None:
    model = shipped()
    check_observation(golden_observation(), model.meta)
    chunk = predict(model, golden_observation())
    check_actions(chunk, model.meta)
    assert chunk.metadata["instruction_known"] is True


def test_which_of_two_bowls_is_meant_is_a_question_of_words() -> None:
    shown = golden_observation()
    model = shipped()
    between = predict(model, shown).actions
    same = "pick up the black bowl between the plate and the ramekin and place it on the plate"
    other = "pick up the black bowl next to the ramekin and place it on the plate"
    said_anew, said_other = (
        np.abs(predict(model, replace(shown, instruction=text)).actions - between)[:, :3].max()
        for text in (same, other)
    )
    assert said_other > 0.2
    assert said_anew < said_other / 2


def test_running_imports_no_training_framework() -> None:
    code = (
        "import sys\n"
        "from mini_wam_golden import golden_observation, predict, shipped\n"
        "predict(shipped(predict_future=True), golden_observation())\n"
        "print(*sorted({'torch', 'onnx'} & set(sys.modules)), 'onnxruntime' in sys.modules)"
    )
    shown = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    assert shown.stdout.strip() == "True"


def varied(number: int) -> Observation:
    """Return the golden observation, darkened and moved by `number`."""
    shown = golden_observation()
    images = {
        role: image - image // np.uint8(4) * np.uint8(number % 4)
        for role, image in shown.images.items()
    }
    moved = shown.proprio["eef_position"] + np.float32(0.005 * number)
    return replace(shown, images=images, proprio={**shown.proprio, "eef_position": moved})


def grey(image: Image) -> Image:
    return np.full_like(image, 110)
