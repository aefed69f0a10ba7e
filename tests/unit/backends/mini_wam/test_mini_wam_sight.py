# SPDX-License-Identifier: Apache-2.0
"""A model that is shown grey frames instead of its cameras'."""

from __future__ import annotations

import numpy as np
import pytest
from mini_wam_parts import FakeSession, manifest, observation, request

from rpent_box.backends.mini_wam import BACKEND
from rpent_box.backends.mini_wam.adapter import ADAPTERS
from rpent_box.backends.mini_wam.manifest import Checkpoint
from rpent_box.backends.mini_wam.model import GREY, MiniWam
from rpent_box.backends.mini_wam.options import MiniWamOptions, Sight
from rpent_box.options import parse_options


def model(session: FakeSession, see: Sight) -> MiniWam:
    checkpoint = Checkpoint(name="fake", weights=None, future=None, manifest=manifest())
    return MiniWam(session, session, checkpoint, ADAPTERS["libero"], see=see)


def test_a_blinded_network_sees_one_grey_whatever_is_shown() -> None:
    session = FakeSession()
    model(session, "grey").predict(request(observation(primary=7, wrist=200)))
    assert len(session.inputs) == 2
    for inputs in session.inputs:
        assert (inputs["images"] == GREY).all()
    seeing = FakeSession()
    model(seeing, "frames").predict(request(observation(primary=7, wrist=200)))
    for blind, inputs in zip(session.inputs, seeing.inputs, strict=True):
        assert inputs["images"].shape == blind["images"].shape
        assert set(np.unique(inputs["images"])) == {7, 200}


def test_a_blinded_network_is_told_everything_else() -> None:
    blind, seeing = FakeSession(), FakeSession()
    model(blind, "grey").predict(request(observation()))
    model(seeing, "frames").predict(request(observation()))
    for name in ("proprio", "instruction"):
        assert np.array_equal(blind.inputs[0][name], seeing.inputs[0][name])


@pytest.mark.parametrize("see", ["frames", "grey"])
def test_what_it_saw_is_in_the_records(see: Sight) -> None:
    assert model(FakeSession(), see).meta.provenance["see"] == see


def test_it_sees_unless_told_otherwise() -> None:
    assert MiniWamOptions().see == "frames"
    options = parse_options(BACKEND.options, ["--see", "grey"], program="serve")
    assert options.see == "grey"
