# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest
from msgspec.structs import replace
from rpent_box_toy import platform as toy
from rpent_box_toy.platform import PLATFORM, ToyOptions
from rpent_box_toy.running import register_toy

from rpent_box.errors import AssetsMissing
from rpent_box.sim.check import PlatformCheck, check_platform, main
from rpent_box.sim.platform import Scene


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    register_toy(monkeypatch)


def answer(capsys) -> PlatformCheck:
    return msgspec.json.decode(capsys.readouterr().out.splitlines()[-1], type=PlatformCheck)


def test_the_options_of_the_platform_are_taken(capsys):
    assert main(["toy", "--step-delay-s=0.5"]) == 0
    assert answer(capsys).renderer == "numpy"
    assert main(["toy", "--breaks=reset"]) == 1
    assert answer(capsys).error == "RuntimeError: the toy broke at reset"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "which platform"),
        (("nowhere",), "no platform called nowhere"),
        (("toy", "--colour=red"), "--colour=red"),
        (("toy", "--step-delay-s=soon"), "cannot be used"),
    ],
)
def test_wrong_usage_is_said_and_exits_with_2(words, said, capsys):
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_help_shows_the_options_of_the_platform(capsys):
    assert main(["toy", "--help"]) == 0
    text = capsys.readouterr().out
    assert "--assets-path" in text
    assert "--golden" in text


def test_without_assets_the_known_scene_is_compared_all_the_same(capsys, monkeypatch):
    compared = []
    watched = replace(PLATFORM, check=lambda platform: compared.append(platform) or [])
    monkeypatch.setattr(toy, "PLATFORM", watched)
    assert main(["toy", "--needs-assets"]) == 0
    found = answer(capsys)
    assert (found.error, found.compared, found.differs) == ("", True, ())
    assert found.missing == "there is no pictures.txt in any folder that was named"
    assert "toy-draw DIR" in found.hint
    assert found.renderer == "numpy"
    assert len(compared) == 1


def test_without_assets_what_differs_is_a_failure_still():
    watched = replace(PLATFORM, check=lambda platform: ["physics: it floats"])
    found = check_platform(watched, ToyOptions(needs_assets=True))
    assert (found.differs, bool(found.missing)) == (("physics: it floats",), True)


def test_the_scene_that_is_drawn_is_the_default_suites_first():
    seen = []

    class Watched(toy.ToyPlatform):
        def reset(self, scene: Scene):
            seen.append(scene)
            return super().reset(scene)

    check_platform(replace(PLATFORM, open=Watched, default_suite="toy_seeded"))
    assert [(scene.suite, scene.task, scene.init_state) for scene in seen] == [
        ("toy_seeded", 0, 1000)
    ]


def test_where_some_assets_are_here_the_first_scene_that_they_show_is_drawn():
    class OnlyFar(toy.ToyPlatform):
        def reset(self, scene: Scene):
            if scene.task == 0:
                raise AssetsMissing("no bottle", hint="fetch it")
            return super().reset(scene)

    found = check_platform(replace(PLATFORM, open=OnlyFar))
    assert (found.missing, found.blank) == ("", ("primary", "wrist"))
    assert found.reset_s > 0


def test_with_golden_alone_no_scene_of_the_tasks_is_drawn(capsys, monkeypatch):
    monkeypatch.setattr(toy, "PLATFORM", replace(PLATFORM, check=lambda platform: []))
    assert main(["toy", "--golden", "--breaks=reset"]) == 0
    assert answer(capsys).reset_s == 0.0


def test_what_differs_is_also_said_in_words(capsys, monkeypatch):
    watched = replace(PLATFORM, check=lambda platform: ["physics: it floats", "renderer: dark"])
    monkeypatch.setattr(toy, "PLATFORM", watched)
    assert main(["toy", "--golden"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[-2:] == ["physics: it floats", "renderer: dark"]
    assert "drawn by numpy" in said[-3]


def test_nothing_recorded_is_no_known_scene_that_is_as_recorded(capsys):
    assert main(["toy", "--golden"]) == 1
    assert "toy has no recorded scene" in capsys.readouterr().err
