# SPDX-License-Identifier: Apache-2.0
import os

import pytest
from msgspec.structs import replace
from rpent_box_toy.platform import PLATFORM
from rpent_box_toy.running import register_toy

from rpent_box.sim import play, serve
from rpent_box.sim.serve import set_environment


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    register_toy(monkeypatch)


@pytest.mark.parametrize("program", [serve, play])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "which platform"),
        (("--endpoint", "ipc:///tmp/s.sock"), "which platform"),
        (("nowhere", "--endpoint", "ipc:///tmp/s.sock"), "no platform called nowhere"),
        (("toy",), "--endpoint"),
        (("toy", "--endpoint", "ipc:///tmp/s.sock", "--output", "o", "--colour", "red"), "colour"),
    ],
)
def test_wrong_usage_is_said_in_one_screen(program, words, said, capsys, monkeypatch):
    monkeypatch.setattr(play.signal, "signal", lambda *_: None)
    assert program.main(words) == 2
    text = capsys.readouterr().err
    assert said in text
    assert "Traceback" not in text


@pytest.mark.parametrize("program", [serve, play])
def test_help_shows_the_platforms_own_options(program, capsys, monkeypatch):
    monkeypatch.setattr(play.signal, "signal", lambda *_: None)
    assert program.main(["toy", "--help"]) == 0
    text = capsys.readouterr().out
    assert "toy's own options" in text
    assert "--step-delay-s" in text
    assert program.main(["--help"]) == 0


def test_what_the_caller_has_set_wins_over_the_platforms_environment(monkeypatch):
    monkeypatch.setenv("TOY_GL", "egl")
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    for name in ("TOY_EXTRA", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    plugin = replace(PLATFORM, environment={"TOY_GL": "osmesa", "TOY_EXTRA": "1"})
    set_environment(plugin, threads=2)
    assert (os.environ["TOY_GL"], os.environ["TOY_EXTRA"]) == ("egl", "1")
    assert (os.environ["OMP_NUM_THREADS"], os.environ["MKL_NUM_THREADS"]) == ("8", "2")
