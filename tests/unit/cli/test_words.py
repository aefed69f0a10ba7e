# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta, Struct
from msgspec.structs import replace

from rpent_box.cli import words as words_module
from rpent_box.cli.words import (
    backend_arguments,
    platform_arguments,
    platform_flags,
    split_platform_words,
)
from rpent_box.errors import BadOption
from rpent_box.launch.simulator import whole_options
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


def test_true_and_false_are_text_where_an_option_is_no_switch() -> None:
    assert words(pairs=("config=true", "tokenizer=false")) == ("--config=true", "--tokenizer=false")


def test_an_option_of_a_platform_that_is_not_played_on_is_known_for_what_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(words_module, "platform_names", lambda: ["table", "table-pro"])
    with pytest.raises(BadOption) as caught:
        words("--table-pro-speed", "2")
    assert caught.value.hint.endswith("of table-pro: rpent-box run --platform table-pro --help")


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
    found = platform_arguments(plugin, ["step_delay_s=0.5"], environ={})
    assert found == ("--step-delay-s=0.5",)
    with pytest.raises(BadOption, match="the platform toy has no option colour"):
        platform_arguments(plugin, ["colour=red"], environ={})
    with pytest.raises(BadOption, match="KEY=VALUE"):
        platform_arguments(plugin, ["=red"], environ={})
    with pytest.raises(BadOption) as caught:
        platform_arguments(plugin, ["asset_path=."], environ={})
    assert caught.value.hint == "Did you mean assets_path? See: rpent-box list --platform toy"


@pytest.mark.usefixtures("toy")
def test_words_with_a_platforms_name_are_its_own_and_no_others() -> None:
    plugin = replace(find_platform("toy"), aliases=("plaything",))
    given = ["--config", "a.yaml", "--toy-assets-path", "/a", "--toy-needs-assets", "--steps=3"]
    given += ["--no-toy-needs-assets", "--plaything-step-delay-s=0.5", "--toys", "stray"]
    mine, others = split_platform_words(plugin, given)
    assert mine == [
        "--assets-path",
        "/a",
        "--needs-assets",
        "--no-needs-assets",
        "--step-delay-s=0.5",
    ]
    assert others == ["--config", "a.yaml", "--steps=3", "--toys", "stray"]
    assert platform_arguments(plugin, ["breaks=reset"], words=mine, environ={}) == (
        "--step-delay-s=0.5",
        "--assets-path=/a",
        "--breaks=reset",
    )


@pytest.mark.usefixtures("toy")
def test_a_word_with_a_platforms_name_that_is_no_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadOption, match="the platform toy has no option asset-path") as caught:
        split_platform_words(find_platform("toy"), ["--toy-asset-path", "/a"])
    assert caught.value.hint.startswith("Did you mean --toy-assets-path?")


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("word", ["--no-toy-assets-path", "--toy-no-assets-path", "--no-toy-x"])
def test_only_a_switch_can_be_turned_off(word: str) -> None:
    with pytest.raises(BadOption, match="the platform toy has no option no-"):
        split_platform_words(find_platform("toy"), [word])


@pytest.mark.usefixtures("toy")
def test_a_platforms_option_without_its_value_is_refused() -> None:
    plugin = find_platform("toy")
    for given in (["--toy-assets-path"], ["--toy-assets-path", "--toy-step-delay-s", "2"]):
        with pytest.raises(BadOption, match="^--toy-assets-path wants a value"):
            split_platform_words(plugin, given)


@pytest.mark.usefixtures("toy")
def test_a_value_may_begin_with_dashes_behind_an_equals_sign_or_be_negative() -> None:
    plugin = find_platform("toy")
    given = ["--toy-assets-path=--odd=name", "--toy-breaks-at-init-state", "-2"]
    mine, others = split_platform_words(plugin, given)
    assert others == []
    assert platform_arguments(plugin, [], words=mine, environ={}) == (
        "--assets-path=--odd=name",
        "--breaks-at-init-state=-2",
    )


@pytest.mark.usefixtures("toy")
def test_what_a_platform_cannot_read_leads_to_help_that_there_is() -> None:
    plugin = find_platform("toy")
    with pytest.raises(BadOption, match="invalid choice") as caught:
        platform_arguments(plugin, ["breaks=sometimes"], environ={})
    assert caught.value.hint == "See: rpent-box run --platform toy --help"


@pytest.mark.usefixtures("toy")
def test_a_platforms_name_that_was_forgotten_is_suggested() -> None:
    with pytest.raises(BadOption) as caught:
        backend_arguments(
            spec_with(Options),
            words=["--assets-path", "/a"],
            pairs=(),
            predict_future=False,
            known=["--episodes", *platform_flags(find_platform("toy"))],
            environ={},
        )
    assert caught.value.hint == "Did you mean --toy-assets-path?"


@pytest.mark.usefixtures("toy")
def test_a_declared_variable_stands_in_for_a_platforms_option(tmp_path: Path) -> None:
    plugin = find_platform("toy")
    environ = {"TOY_ASSETS_PATH": str(tmp_path)}
    assert platform_arguments(plugin, [], environ=environ) == (f"--assets-path={tmp_path}",)
    given = platform_arguments(plugin, ["assets_path=/mine"], environ=environ)
    assert given == ("--assets-path=/mine",)
    said = "TOY_ASSETS_PATH, which stands in for --toy-assets-path, names /none"
    with pytest.raises(BadOption, match=said):
        platform_arguments(plugin, [], environ={"TOY_ASSETS_PATH": "/none"})


@pytest.mark.parametrize(
    ("name", "maker"),
    [("robocasa", "rpent_box_robocasa.fetch_assets"), ("robotwin", "robotwin-download-assets")],
)
def test_a_folder_that_a_variable_names_in_vain_comes_with_the_command_that_makes_it(
    name: str, maker: str
) -> None:
    variable = f"{name.upper()}_ASSETS_PATH"
    with pytest.raises(BadOption, match=variable) as caught:
        platform_arguments(find_platform(name), [], environ={variable: "/none"})
    assert maker in caught.value.hint


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("nowhere", ["~nobody-of-that-name/assets", "/dev/null/assets", "x" * 5000])
def test_a_variable_that_names_no_path_at_all_is_no_defect(nowhere: str) -> None:
    with pytest.raises(BadOption, match="TOY_ASSETS_PATH, which stands in for"):
        platform_arguments(find_platform("toy"), [], environ={"TOY_ASSETS_PATH": nowhere})


@pytest.mark.usefixtures("toy")
def test_a_variable_may_hold_a_relative_path_the_home_sign_and_blanks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my assets").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in ("my assets", "~/my assets"):
        words = platform_arguments(find_platform("toy"), [], environ={"TOY_ASSETS_PATH": given})
        assert words == (f"--assets-path={given}",)
        whole, named = whole_options(find_platform("toy"), words)
        assert named == [tmp_path / "my assets"]
        assert whole == [f"--assets-path={tmp_path}/my assets"]


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
