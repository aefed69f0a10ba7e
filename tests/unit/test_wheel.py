# SPDX-License-Identifier: Apache-2.0
"""The built wheel works from an empty folder, and importing the command line stays light."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("docker", "torch", "onnxruntime", "onnx", "mujoco", "robosuite", "libero", "av", "uv")

IMPORTS = "import rpent_box, rpent_box.worker.serve, rpent_box.sim.serve, rpent_box.client"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, timeout=300, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def python(code: str, *, installed: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `code` in `folder` with the wheel before everything, the checkout out of sight."""
    preface = (
        "import sys; sys.path[:] = [entry for entry in sys.path if entry not in "
        f"('', {str(ROOT)!r})]; sys.path.insert(0, {str(installed)!r}); "
    )
    command = [sys.executable, "-I", "-c", preface + code]
    return subprocess.run(command, cwd=folder, text=True, capture_output=True, timeout=120)


def test_the_wheel_imports_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    done = python(f"{IMPORTS}; print(rpent_box.__file__)", installed=installed, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(installed / "rpent_box" / "__init__.py")


def test_the_wheel_has_the_templates_of_a_report(installed: Path) -> None:
    templates = Path("rpent_box") / "report" / "templates"
    there = {path.name for path in (ROOT / templates).iterdir()}
    assert "style.css" in there
    assert {path.name for path in (installed / templates).iterdir()} == there


def test_the_wheel_has_the_live_page(installed: Path) -> None:
    page = Path("rpent_box") / "live" / "page"
    there = {path.name for path in (ROOT / page).iterdir()}
    assert "index.html" in there
    assert {path.name for path in (installed / page).iterdir()} == there


def test_the_wheels_command_line_answers(installed: Path, tmp_path: Path) -> None:
    code = "from rpent_box.cli.main import main; sys.argv[1:] = ['version']; main()"
    done = python(code, installed=installed, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("rpent-box 0.")


def test_the_wheel_finds_its_backends_and_their_options(installed: Path, tmp_path: Path) -> None:
    code = (
        "from rpent_box.plugins import backend_names, find_backend; "
        "print([find_backend(name).options().__class__.__name__ for name in backend_names()])"
    )
    done = python(code, installed=installed, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Options" in done.stdout


def test_the_wheel_carries_types_licence_and_weights_but_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "rpent_box/py.typed" in names
    assert any(name.endswith("LICENSE") for name in names)
    assert any(name.endswith(".onnx") for name in names)
    assert not any(name.startswith(("tests", "platforms", "images")) for name in names)


@pytest.mark.parametrize("module", ["rpent_box.cli", "rpent_box.cli.app"])
def test_the_command_line_imports_no_docker_model_or_simulator(
    module: str, installed: Path, tmp_path: Path
) -> None:
    code = f"import {module}; print([name for name in {HEAVY} if name in sys.modules])"
    done = python(code, installed=installed, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_without_the_host_extra_the_command_says_what_to_install(
    installed: Path, tmp_path: Path
) -> None:
    code = "sys.modules['typer'] = None; from rpent_box.cli.main import main; sys.exit(main())"
    done = python(code, installed=installed, folder=tmp_path)
    assert done.returncode == 1
    assert "pip install 'rpent-box[host]'" in done.stderr
    assert "Traceback" not in done.stderr
