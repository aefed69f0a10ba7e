# SPDX-License-Identifier: Apache-2.0
"""Backends and platforms are found by name, alias and either spelling."""

import pytest

from rpent_box import plugins
from rpent_box.errors import BrokenPlugin, UnknownName
from rpent_box.plugins import (
    BACKENDS,
    PLATFORMS,
    find_backend,
    find_platform,
    installed_backends,
    installed_platforms,
)


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


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """An installed package whose backend and platform import what is not there."""
    (tmp_path / "rb_broken.py").write_text("import no_such_framework\n")
    info = tmp_path / "rb_broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rb-broken\nVersion: 1.0\n")
    points = [f"[{group}]\nbroken = rb_broken:PLUGIN\n" for group in (BACKENDS, PLATFORMS)]
    (info / "entry_points.txt").write_text("\n".join(points))
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("broken")
def test_a_broken_plugin_hides_no_other_and_is_named(caplog):
    assert "mini-wam" in [spec.name for spec in installed_backends()]
    assert "broken" not in [plugin.name for plugin in installed_platforms()]
    assert "the platform broken is installed and cannot be imported" in caplog.text
    assert find_backend("mini_wam").name == "mini-wam"
    with pytest.raises(UnknownName):
        find_backend("no-such-model")


@pytest.mark.usefixtures("broken")
def test_a_broken_plugin_that_is_asked_for_says_what_is_missing_and_which_package():
    with pytest.raises(BrokenPlugin, match="no_such_framework") as caught:
        find_platform("broken")
    assert "rb-broken" in caught.value.hint
