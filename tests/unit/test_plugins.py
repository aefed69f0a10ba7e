# SPDX-License-Identifier: Apache-2.0
"""Backends and platforms are found by name, alias and either spelling."""

import pytest

from rpent_box import plugins
from rpent_box.errors import UnknownName


def test_a_backend_is_found_by_its_name_and_by_the_underscore_spelling():
    assert plugins.find_backend("mini-wam").name == "mini-wam"
    assert plugins.find_backend("Mini_WAM").name == "mini-wam"


def test_an_unknown_name_says_what_is_installed():
    with pytest.raises(UnknownName) as caught:
        plugins.find_backend("nano-wam")
    assert "nano-wam" in str(caught.value)
    assert "mini-wam" in caught.value.hint
    with pytest.raises(UnknownName):
        plugins.find_platform("atari")


def test_backends_that_fit_are_found_by_action_space():
    assert "mini-wam" in plugins.fitting_backends({"libero.osc_pose.delta.v1"})
    assert plugins.fitting_backends({"no.such.space.v1"}) == ()
