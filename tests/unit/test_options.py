# SPDX-License-Identifier: Apache-2.0
"""Typed options are read strictly and written back as the same words."""

import argparse
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpent_box.errors import BadOption
from rpent_box.options import add_options, parse_options, path_fields, switches, to_arguments


class Options(msgspec.Struct, frozen=True, kw_only=True):
    predict_future: Annotated[bool, msgspec.Meta(description="Also predict a frame.")] = False
    steps: Annotated[int, msgspec.Meta(ge=1, le=100, description="Denoising steps.")] = 5
    scale: float = 1.0
    statistics: str | None = None
    mode: Literal["fast", "exact"] = "fast"


def test_options_not_given_keep_their_defaults():
    assert parse_options(Options, [], program="worker") == Options()


def test_each_kind_of_option_is_read_as_its_type():
    words = ["--predict-future", "--steps=7", "--scale", "0.5", "--statistics", "s.json"]
    assert parse_options(Options, [*words, "--mode", "exact"], program="worker") == Options(
        predict_future=True, steps=7, scale=0.5, statistics="s.json", mode="exact"
    )


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--steps", "0"], "steps"),
        (["--steps", "many"], "steps"),
        (["--mode", "slow"], "mode"),
        (["--unheard-of"], "unheard-of"),
        (["--predict-fut"], "predict-fut"),
        (["stray"], "stray"),
    ],
)
def test_a_wrong_word_is_refused_by_name(words, named):
    with pytest.raises(BadOption) as caught:
        parse_options(Options, words, program="worker")
    assert named in str(caught.value)


@settings(deadline=None)
@given(
    st.booleans(),
    st.integers(1, 100),
    st.floats(allow_nan=False, allow_infinity=False),
    st.none() | st.text(min_size=1).filter(lambda text: "\x00" not in text),
    st.sampled_from(["fast", "exact"]),
)
def test_arguments_read_back_as_the_same_options(future, steps, scale, statistics, mode):
    options = Options(
        predict_future=future, steps=steps, scale=scale, statistics=statistics, mode=mode
    )
    assert parse_options(Options, to_arguments(options), program="worker") == options


def test_paths_among_options_are_known_by_their_mark():
    is_path = msgspec.Meta(extra={"path": True}, description="A file.")

    class WithPaths(msgspec.Struct, frozen=True, kw_only=True):
        config: Annotated[str, is_path] = ""
        statistics: Annotated[str | None, is_path] = None
        folder: Annotated[str, is_path] | None = None
        name: Annotated[str, msgspec.Meta(description="No file.")] = ""

    assert path_fields(WithPaths) == ["config", "statistics", "folder"]
    assert path_fields(Options) == []


def test_switches_are_the_options_that_take_no_value():
    assert switches(Options) == ["predict_future"]


def test_options_may_be_shown_with_a_name_before_each():
    parser = argparse.ArgumentParser(add_help=False)
    add_options(parser, Options, prefix="toy-")
    shown = parser.format_help()
    assert "--toy-steps N" in shown
    assert "--toy-predict-future, --no-toy-predict-future" in shown
    assert "--steps" not in shown
