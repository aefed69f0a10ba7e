# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta, Struct

from rpent_box.errors import BadOption
from rpent_box.launch.given_paths import existing_path, with_whole_paths

IS_PATH = Meta(extra={"path": True})


class Options(Struct, frozen=True, kw_only=True):
    assets: Annotated[str, IS_PATH] = ""
    table: Annotated[str | None, IS_PATH] = None
    scale: float = 1.0


class Plain(Struct, frozen=True, kw_only=True):
    scale: float = 1.0


def test_a_path_is_made_absolute_from_where_its_giver_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "meshes").mkdir()
    monkeypatch.chdir(tmp_path)
    words, named = with_whole_paths(Options, ["--assets", "meshes", "--scale=2"], program="toy")
    assert words == [f"--assets={tmp_path}/meshes", "--scale=2.0"]
    assert named == [tmp_path / "meshes"]


def test_the_home_folder_is_meant_by_its_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert with_whole_paths(Options, ["--assets=~"], program="toy")[1] == [tmp_path]


@pytest.mark.parametrize("declared", [Options, Plain])
def test_words_without_a_path_stay_as_they_are(declared: type[Struct]) -> None:
    words = ["--scale", "2"]
    assert with_whole_paths(declared, words, program="toy") == (words, [])


def test_a_path_where_nothing_is_is_refused_as_people_spell_it() -> None:
    with pytest.raises(BadOption, match="no file or folder at /nowhere") as caught:
        with_whole_paths(Options, ["--assets=/nowhere"], program="toy", prefix="toy-")
    assert caught.value.hint == "Give an existing file or folder: --toy-assets PATH"


def test_an_empty_path_is_not_the_current_folder() -> None:
    with pytest.raises(BadOption, match="the table is an empty path"):
        existing_path("", "table", "--table")


def test_a_path_that_no_system_takes_is_refused_and_no_defect() -> None:
    with pytest.raises(BadOption, match="cannot be read"):
        existing_path("/" + "x" * 5000, "table", "--table")
