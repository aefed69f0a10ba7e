# SPDX-License-Identifier: Apache-2.0
"""Wheels that only this machine has, for builds that see nothing of this machine."""

from pathlib import Path

import pytest

from rpent_box.errors import LaunchError
from rpent_box.launch.lent_wheels import lend_wheels
from rpent_box.launch.recipe import Recipe

WHEEL = "big_thing-2.1+cpu-cp311-cp311-linux_x86_64.whl"
LOCK = "big-thing==2.1+cpu \\\n    --hash=sha256:00\nsmall==1.0 \\\n    --hash=sha256:00\n"


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    folder = tmp_path / "images" / "arm"
    folder.mkdir(parents=True)
    (tmp_path / "images" / "wheels").mkdir()
    (folder / "requirements-cpu.lock").write_text(LOCK)
    return Recipe(
        kind="backend",
        name="arm",
        variant="cpu",
        checkout=tmp_path,
        dockerfile=folder / "Dockerfile",
        lock=folder / "requirements-cpu.lock",
        project=None,
        packages=(),
    )


def environ(tmp_path: Path, **more: str) -> dict[str, str]:
    """Return an environment whose pip has no settings but these."""
    return {"XDG_CONFIG_DIRS": str(tmp_path), "HOME": str(tmp_path), **more}


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpent_box.launch.host_settings.pip_files", lambda _environ: ())


def lent(recipe: Recipe) -> list[str]:
    return [path.name for path in (recipe.checkout / "images" / "wheels").iterdir()]


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_wheel_in_a_folder_of_pips_is_lent(recipe: Recipe, tmp_path: Path, prefix: str) -> None:
    folder = tmp_path / "pip"
    folder.mkdir()
    (folder / WHEEL).write_text("wheel")
    (folder / "small-1.0-py3-none-any.whl").write_text("on every index")
    lend_wheels([recipe], environ(tmp_path, PIP_FIND_LINKS=f"{prefix}{folder} https://far.test/"))
    assert lent(recipe) == [WHEEL]


def test_a_wheel_that_was_put_there_is_enough(recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "images" / "wheels" / WHEEL).write_text("wheel")
    lend_wheels([recipe], environ(tmp_path))


def test_without_the_wheel_the_error_says_where_to_put_it(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"locked to big-thing==2\.1\+cpu") as caught:
        lend_wheels([recipe], environ(tmp_path))
    assert str(tmp_path / "images" / "wheels") in caught.value.hint
    assert "UV_INDEX=URL" in caught.value.hint


@pytest.mark.parametrize("variable", ["UV_INDEX", "PIP_INDEX_URL"])
def test_another_index_may_have_it(recipe: Recipe, tmp_path: Path, variable: str) -> None:
    lend_wheels([recipe], environ(tmp_path, **{variable: "https://index.test/simple"}))
    assert lent(recipe) == []


def test_a_lock_without_such_versions_asks_for_nothing(recipe: Recipe, tmp_path: Path) -> None:
    recipe.lock.write_text("small==1.0 \\\n    --hash=sha256:00\n")
    lend_wheels([recipe], environ(tmp_path))


def test_a_copy_that_fails_leaves_nothing(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / WHEEL).write_text("wheel")

    def fill_the_disk(source: Path, half: Path) -> None:
        half.write_text("whe")
        raise OSError("no space left")

    monkeypatch.setattr("rpent_box.launch.lent_wheels.shutil.copyfile", fill_the_disk)
    with pytest.raises(LaunchError, match="no space left"):
        lend_wheels([recipe], environ(tmp_path, PIP_FIND_LINKS=str(tmp_path / "pip")))
    assert lent(recipe) == []
