# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta, Struct

from rpent_box.cli.words import backend_arguments, platform_arguments
from rpent_box.errors import BadOption
from rpent_box.plugins import find_platform
from rpent_box.worker.backend import BackendSpec


class Options(Struct, frozen=True, kw_only=True):
    config: Annotated[str, Meta(description="A file.")] = ""
    tokenizer: Annotated[str, Meta(description="A file.", extra={"path": True})] = ""
    service: Annotated[str, Meta(description="A running one.")] = ""
    steps: Annotated[int, Meta(description="Denoising steps.", ge=1)] = 5
    predict_future: Annotated[bool, Meta(description="Future frames.")] = False
    sampling: Annotated[bool, Meta(description="Sample.")] = True


def spec_with(options: type[Struct]) -> BackendSpec:
    def load(*_: object) -> object:
        raise NotImplementedError

    return BackendSpec(
        name="slow-wam",
        kind="wam",
        summary="A test's own",
        options=options,
        load=load,  # type: ignore[arg-type]
        platforms=("toy",),
        action_spaces=("toy.point.delta.v1",),
        aliases=("slow",),
        borrows="service",
        env_fallbacks={"SLOW_CONFIG": "config", "SLOW_HOME": "tokenizer", "SLOW_PYTHON": "python"},
    )


def words(
    *given: str,
    pairs: tuple[str, ...] = (),
    future: bool = False,
    environ: dict[str, str] | None = None,
) -> tuple[str, ...]:
    return backend_arguments(
        spec_with(Options),
        words=given,
        pairs=pairs,
        predict_future=future,
        known=["--episodes", "--seed"],
        environ=environ or {},
    )


def test_unknown_options_and_pairs_become_the_workers_words() -> None:
    assert words("--config", "a.yaml", pairs=("steps=7",)) == ("--config=a.yaml", "--steps=7")


def test_an_option_may_carry_the_backends_name_or_alias() -> None:
    assert words("--slow-wam-config", "a.yaml") == ("--config=a.yaml",)
    assert words("--slow-config=a.yaml") == ("--config=a.yaml",)


def test_pairs_take_flags_as_true_and_false() -> None:
    assert words(pairs=("predict_future=true", "sampling=false")) == (
        "--predict-future",
        "--no-sampling",
    )


def test_predict_future_reaches_a_backend_that_has_it() -> None:
    assert words(future=True) == ("--predict-future",)


def test_predict_future_is_refused_for_a_backend_without_it() -> None:
    class Plain(Struct, frozen=True, kw_only=True):
        steps: int = 5

    with pytest.raises(BadOption, match="slow-wam has no option --predict-future"):
        backend_arguments(
            spec_with(Plain), words=(), pairs=(), predict_future=True, known=(), environ={}
        )


def test_a_slip_of_the_pen_gets_a_suggestion() -> None:
    with pytest.raises(BadOption) as caught:
        words("--episode", "5")
    assert "--episode" in caught.value.message
    assert caught.value.hint == "Did you mean --episodes?"


def test_a_value_of_the_wrong_type_or_range_is_refused() -> None:
    with pytest.raises(BadOption, match="steps"):
        words("--steps", "many")
    with pytest.raises(BadOption, match="steps"):
        words("--steps", "0")


def test_a_stray_word_is_refused() -> None:
    with pytest.raises(BadOption, match="stray"):
        words("stray")


def test_defaults_are_left_out() -> None:
    assert words("--steps", "5", "--sampling") == ()


@pytest.mark.usefixtures("toy")
def test_platform_options_are_checked_against_the_platform() -> None:
    plugin = find_platform("toy")
    assert platform_arguments(plugin, ["step_delay_s=0.5"]) == ("--step-delay-s=0.5",)
    with pytest.raises(BadOption, match="the platform toy has no option colour"):
        platform_arguments(plugin, ["colour=red"])
    with pytest.raises(BadOption, match="KEY=VALUE"):
        platform_arguments(plugin, ["=red"])


def test_a_declared_variable_stands_in_for_an_option_that_is_not_given() -> None:
    environ = {"SLOW_CONFIG": "/from/environment.yaml", "SLOW_PYTHON": "/usr/bin/python3"}
    assert words(environ=environ) == ("--config=/from/environment.yaml",)
    assert words("--config", "mine.yaml", environ=environ) == ("--config=mine.yaml",)
    assert words(environ={"SLOW_CONFIG": ""}) == ()


def test_a_borrowed_service_is_told_nothing_of_the_environment() -> None:
    environ = {"SLOW_CONFIG": "/from/environment.yaml"}
    assert words("--service=ws://there:1", environ=environ) == ("--service=ws://there:1",)


def test_a_variable_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    assert words(environ={"SLOW_HOME": str(tmp_path)}) == (f"--tokenizer={tmp_path}",)
    with pytest.raises(BadOption, match="SLOW_HOME, which stands in for --tokenizer, names /none"):
        words(environ={"SLOW_HOME": "/none"})
