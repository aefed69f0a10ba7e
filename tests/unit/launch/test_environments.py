# SPDX-License-Identifier: Apache-2.0
import fcntl
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from rpent_box.errors import EnvironmentMissing, LaunchError
from rpent_box.launch import environments
from rpent_box.launch.recipe import Recipe

FAKE_UV = """#!/bin/sh
echo "$*" >>{calls}
case " $* " in *" {fail} "*) echo uv says no >&2; exit 1;; esac
if [ "$1" = venv ]; then
    for last; do :; done
    mkdir -p "$last/bin" && : >"$last/bin/python"
fi
"""


class Ground:
    """A checkout with one recipe, and a uv that only notes what it is asked."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls_file = root / "calls"
        self.uv = root / "uv"
        checkout = root / "checkout"
        (checkout / "images/thing").mkdir(parents=True)
        (checkout / "images/base").mkdir()
        (checkout / "pyproject.toml").write_text("[project]\n")
        self.lock = checkout / "images/thing/requirements.lock"
        self.lock.write_text("something==1\n")
        self.recipe = Recipe(
            kind="backend",
            name="thing",
            checkout=checkout,
            dockerfile=checkout / "images/thing/Dockerfile",
            lock=self.lock,
            project=None,
            packages=(),
        )
        self.let_uv_fail_on("")
        monkeypatch.setattr(environments, "find_uv", lambda: str(self.uv))
        monkeypatch.setattr(environments, "find_recipe", lambda _kind, _name, _variant: self.recipe)
        monkeypatch.setattr(environments, "find_checkout", lambda: checkout)

    def let_uv_fail_on(self, word: str) -> None:
        self.uv.write_text(FAKE_UV.format(calls=self.calls_file, fail=word or "never"))
        self.uv.chmod(0o755)

    def calls(self) -> list[str]:
        text = self.calls_file.read_text() if self.calls_file.exists() else ""
        self.calls_file.unlink(missing_ok=True)
        return [" ".join(line.split()[:2]) for line in text.splitlines()]

    def build(self) -> Path:
        return environments.build_environment(
            "backend", "thing", say=lambda _text: None, environ=dict(os.environ)
        )


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    return Ground(tmp_path, monkeypatch)


def test_an_environment_is_missing_until_it_is_built(ground: Ground) -> None:
    assert environments.find_environment("backend", "thing") is None
    with pytest.raises(EnvironmentMissing) as caught:
        environments.require_environment("backend", "thing")
    assert "rpent-box build thing --launcher process" in caught.value.hint
    python = ground.build()
    assert ground.calls() == ["venv --clear", "pip install", "pip install"]
    assert environments.find_environment("backend", "thing") == python
    assert environments.require_environment("backend", "thing") == python


def test_a_second_build_does_nothing(ground: Ground) -> None:
    ground.build()
    ground.calls()
    ground.build()
    assert ground.calls() == []


def test_a_build_that_failed_is_not_ready_and_goes_on_where_it_stopped(ground: Ground) -> None:
    ground.let_uv_fail_on(f"--build-constraints={ground.recipe.tools_lock}")
    with pytest.raises(LaunchError, match="uv says no"):
        ground.build()
    assert environments.find_environment("backend", "thing") is None
    ground.let_uv_fail_on("")
    ground.calls()
    ground.build()
    assert ground.calls() == ["pip install", "pip install"]


def test_another_lock_is_another_environment(ground: Ground) -> None:
    first = ground.build()
    ground.lock.write_text("something==2\n")
    assert environments.find_environment("backend", "thing") is None
    assert ground.build() != first


def test_changed_entry_points_are_installed_again_without_a_new_venv(ground: Ground) -> None:
    first = ground.build()
    ground.calls()
    (ground.recipe.checkout / "pyproject.toml").write_text("[project]\nname = 'new'\n")
    assert environments.find_environment("backend", "thing") is None
    assert ground.build() == first
    assert "venv --clear" not in ground.calls()


def test_locked_packages_are_installed_with_hashes_and_ours_without_dependencies(
    ground: Ground,
) -> None:
    ground.build()
    lines = ground.calls_file.read_text().splitlines()
    assert f"--require-hashes --no-deps --compile-bytecode -r={ground.lock}" in lines[1]
    assert "--no-deps" in lines[2]
    assert f"--editable={ground.recipe.checkout}" in lines[2]


def test_a_variant_is_another_environment_and_may_take_lent_wheels(ground: Ground) -> None:
    default = environments.environment_path("backend", "thing")
    ground.recipe = msgspec.structs.replace(ground.recipe, variant="cpu")
    path = environments.environment_path("backend", "thing", "cpu")
    assert path != default
    assert path.name.startswith("thing-cpu-")
    with pytest.raises(EnvironmentMissing, match=r"thing \(cpu\) is not built") as caught:
        environments.require_environment("backend", "thing", "cpu")
    assert "build thing --variant cpu --launcher process" in caught.value.hint
    ground.build()
    wheels = ground.recipe.checkout / "images/wheels"
    assert f"--find-links={wheels} -r={ground.lock}" in ground.calls_file.read_text()


def test_sources_are_got_once_and_installed_without_dependencies(ground: Ground) -> None:
    checkout = ground.recipe.checkout
    ground.recipe.sources_lock.write_text("tree https://forge.test/t.git 1 2\n")
    ground.recipe = msgspec.structs.replace(ground.recipe, sources=("tree",))
    ground.recipe.get_source.write_text(
        "import pathlib, sys\n"
        "pathlib.Path(sys.argv[2]).mkdir(parents=True)\n"
        f"open({str(checkout / 'got')!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
    )
    folder = environments.environment_path("backend", "thing") / "sources" / "tree"
    ground.let_uv_fail_on(f"--editable={folder}")
    with pytest.raises(LaunchError, match="the source tree"):
        ground.build()
    ground.let_uv_fail_on("")
    ground.build()
    assert (checkout / "got").read_text() == (
        f"tree {folder} --lock={ground.recipe.sources_lock} --given={checkout}/images/sources\n"
    )
    assert f"--no-deps --editable={folder}\n" in ground.calls_file.read_text()


def test_other_sources_are_another_environment(ground: Ground) -> None:
    ground.recipe = msgspec.structs.replace(ground.recipe, sources=("tree",))
    ground.recipe.sources_lock.write_text("tree https://forge.test/t.git 1 2\n")
    before = environments.environment_path("backend", "thing")
    ground.recipe.sources_lock.write_text("tree https://forge.test/t.git 3 4\n")
    assert environments.environment_path("backend", "thing") != before


def test_extras_are_added_once_and_change_nothing_that_is_locked(ground: Ground) -> None:
    def add(*extras: str) -> Path:
        say = str.upper
        return environments.add_extras(
            "backend", "thing", extras, say=say, environ=dict(os.environ)
        )

    python = add("model")
    line = ground.calls_file.read_text().splitlines()[-1]
    assert f"--python={python}" in line
    assert f"--constraints={ground.lock}" in line
    assert f"--editable={ground.recipe.checkout}[model]" in line
    ground.calls()
    assert add("model") == python
    assert ground.calls() == []
    assert add("model", "another") == python
    assert ground.calls() == ["pip install"]


def test_extras_of_the_simulators_own_package_are_added_beside_the_models(
    ground: Ground, tmp_path: Path
) -> None:
    project = tmp_path / "platform"
    project.mkdir()
    (project / "pyproject.toml").write_text("[project]\n")
    ground.recipe = msgspec.structs.replace(ground.recipe, project=project)

    def add(*own: str) -> list[str]:
        ground.calls()
        environments.add_extras(
            *("backend", "thing", ["model"]),
            project_extras=own,
            say=str.upper,
            environ=dict(os.environ),
        )
        calls = ground.calls_file
        return calls.read_text().splitlines()[-1].split() if calls.exists() else []

    assert f"--editable={project}[teaching]" not in add()
    added = add("teaching")
    assert f"--editable={ground.recipe.checkout}[model]" in added
    assert f"--editable={project}[teaching]" in added
    assert add("teaching") == []


def test_extras_that_could_not_be_added_are_tried_again(ground: Ground) -> None:
    ground.let_uv_fail_on(f"--editable={ground.recipe.checkout}[model]")
    for _ in range(2):
        with pytest.raises(LaunchError, match="uv says no"):
            environments.add_extras(
                "backend", "thing", ["model"], say=str.upper, environ=dict(os.environ)
            )


def test_an_environment_has_the_python_that_its_lock_was_made_for(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert environments.python_version(ground.recipe) == here
    ground.lock.with_suffix(".in").write_text("something\n")
    assert environments.python_version(ground.recipe) == environments.LOCKED_PYTHON
    declaring = SimpleNamespace(python="3.10")
    monkeypatch.setattr(environments, "find_backend", lambda _name: declaring)
    assert environments.python_version(ground.recipe) == "3.10"


def test_without_a_fitting_python_the_error_gives_one_command(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    ground.let_uv_fail_on("venv")
    with pytest.raises(EnvironmentMissing, match="needs Python 3") as caught:
        ground.build()
    assert caught.value.hint.startswith(f"Install it: {ground.uv} python install 3.")
    assert "uv says no" in caught.value.detail


def test_of_two_builders_one_waits_and_says_so(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = environments.environment_path("backend", "thing")
    path.parent.mkdir(parents=True)
    said: list[str] = []
    monkeypatch.setattr(environments, "BUILD_TIMEOUT_S", 0.2)
    monkeypatch.setattr(environments, "LOCK_POLL_S", 0.05)
    with path.with_suffix(".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LaunchError, match="for too long"):
            environments.build_environment(
                "backend", "thing", say=said.append, environ=dict(os.environ)
            )
    assert said == [f"waiting: another command is building {path.name}"]


def test_uv_gets_what_pip_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "pip.conf"
    conf.write_text("[global]\nextra-index-url = file:///somewhere/simple\n")
    environ = {"PIP_CONFIG_FILE": str(conf), "PIP_INDEX_URL": "https://index.test/simple"}
    given = environments._build_environ({**environ, "VIRTUAL_ENV": "/other"})
    assert given["UV_DEFAULT_INDEX"] == "https://index.test/simple"
    assert "file:///somewhere/simple" in given["UV_INDEX"]
    assert "VIRTUAL_ENV" not in given
