# SPDX-License-Identifier: Apache-2.0
import os

import numpy as np
import pytest
from msgspec.structs import replace

from rpent_box.sim.known_scene import coarse
from rpent_box_robotwin import PLATFORM, golden
from rpent_box_robotwin.golden import Golden, compare, measure, read_golden
from rpent_box_robotwin.platform import RobotwinPlatform

GOLDEN = read_golden()


def moved(by: float) -> Golden:
    states = [list(state) for state in GOLDEN.states]
    states[3][0] += by
    return replace(GOLDEN, states=states)


def brighter(by: int) -> Golden:
    return replace(GOLDEN, coarse_frame=np.add(GOLDEN.coarse_frame, by).tolist())


def test_the_recorded_scene_equals_itself() -> None:
    assert compare(GOLDEN, GOLDEN, frames=True) == []


def test_a_tenth_of_a_millimetre_is_the_most_that_is_let_through() -> None:
    assert compare(GOLDEN, moved(0.5e-4), frames=True) == []
    (finding,) = compare(GOLDEN, moved(3e-4), frames=True)
    assert (finding.part, "0.0003" in finding.message) == ("physics", True)


def test_a_state_that_is_no_number_or_of_another_length_is_a_finding() -> None:
    shorter = replace(GOLDEN, states=GOLDEN.states[1:])
    for other in (moved(float("nan")), shorter):
        (finding,) = compare(GOLDEN, other, frames=True)
        assert finding.part == "physics"


def test_another_light_is_a_finding_on_a_software_renderer_only() -> None:
    (finding,) = compare(GOLDEN, brighter(6), frames=True)
    assert (finding.part, "6.0 grey levels" in finding.message) == ("renderer", True)
    assert compare(GOLDEN, brighter(6), frames=False) == []


def test_on_a_gpu_it_is_said_that_frames_are_not_compared(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(golden, "measure", lambda: brighter(6))
    assert golden.check_golden(Named("NVIDIA H200")) == []
    assert "physics alone is compared" in caplog.text
    assert len(golden.check_golden(Named("llvmpipe"))) == 1


class Named(RobotwinPlatform):
    """A platform of which the renderer's name is all that is asked."""

    def __init__(self, renderer: str) -> None:
        self._name = renderer

    @property
    def renderer(self) -> str:
        return self._name


@pytest.mark.simulator
def test_the_known_scene_is_what_was_recorded_and_shows_a_higher_friction() -> None:
    pytest.importorskip("sapien", reason="SAPIEN is not installed here")
    for name, value in PLATFORM.environment.items():
        os.environ.setdefault(name, value)
    from rpent_box_robotwin import golden_scene

    assert compare(GOLDEN, measure(), frames=True) == []
    states, frame = golden_scene.play(friction=golden_scene.FRICTION * 1.01)
    other = Golden(states=states.tolist(), coarse_frame=coarse(frame).tolist())
    (finding,) = compare(GOLDEN, other, frames=True)
    assert finding.part == "physics"
