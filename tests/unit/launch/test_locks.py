# SPDX-License-Identifier: Apache-2.0
"""What `make lock` resolves for whom."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script, looking at a checkout with one image of two variants and one without."""
    spec = importlib.util.spec_from_file_location("rpent_box_lock", ROOT / "images/lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    for name in ("arm", "plain"):
        (tmp_path / "images" / name).mkdir(parents=True)
        (tmp_path / "images" / name / "Dockerfile").touch()
    arm = tmp_path / "images/arm"
    (arm / "requirements.in").write_text(
        "# Why it matters.\n# lock: --prerelease=allow\n"
        "# lock: --override=images/arm/o.txt\ntorch\n"
    )
    (arm / "requirements-cpu.in").write_text("torch==1+cpu\n")
    monkeypatch.setattr(module, "find_backend", lambda _name: SimpleNamespace(python="3.10"))
    return module


def test_an_images_own_requirements_are_resolved_for_its_python(lock: ModuleType) -> None:
    cpu, default = lock.locks_of("arm")
    assert default.path == lock.ROOT / "images/arm/requirements.lock"
    assert default.wanted == (lock.CORE, f"-r {lock.ROOT}/images/arm/requirements.in")
    assert default.options == (
        "--python-version=3.10",
        lock.LINUX,
        "--prerelease=allow",
        "--override=images/arm/o.txt",
    )
    assert cpu.path == lock.ROOT / "images/arm/requirements-cpu.lock"
    assert f"--find-links={lock.ROOT}/images/wheels" in cpu.options


def test_an_image_without_requirements_of_its_own_is_resolved_for_every_python(
    lock: ModuleType,
) -> None:
    (only,) = lock.locks_of("plain")
    assert only.wanted == (f"rpent-box[plain] @ {lock.ROOT.as_uri()}",)
    assert "--universal" in only.options


def test_a_service_gets_the_usual_python(lock: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_name: str) -> None:
        raise lock.UnknownName("no such backend")

    monkeypatch.setattr(lock, "find_backend", unknown)
    assert all("--python-version=3.11" in one.options for one in lock.locks_of("arm"))


def test_only_what_is_named_is_resolved_and_options_go_to_uv(
    lock: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(words: list[str], **_: object) -> SimpleNamespace:
        ran.append(words)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(lock.sys, "argv", ["lock.py", "--upgrade", "plain"])
    monkeypatch.setattr(subprocess, "run", run)
    assert lock.main() == 0
    (words,) = ran
    assert words[-1] == "--upgrade"
    assert f"--output-file={lock.ROOT}/images/plain/requirements.lock" in words
    assert "--generate-hashes" in words


def test_a_name_without_a_lock_is_refused_with_those_that_have_one(
    lock: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lock.sys, "argv", ["lock.py", "nobody"])
    assert lock.main() == 2
    assert "no lock of nobody; there are: tools, arm, plain" in capsys.readouterr().err


def test_one_lock_without_a_solution_does_not_hide_the_others(
    lock: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = iter([1, 0])
    monkeypatch.setattr(lock.sys, "argv", ["lock.py", "arm"])
    monkeypatch.setattr(
        subprocess, "run", lambda _words, **_: SimpleNamespace(returncode=next(codes))
    )
    assert lock.main() == 1
    assert next(codes, "all were tried") == "all were tried"


def test_the_locks_of_this_checkout_are_all_known(lock: ModuleType) -> None:
    lock.ROOT = ROOT
    known = set(lock.known_names())
    found = {file.parent.name for file in ROOT.glob("*/*/requirements.lock")}
    assert found <= known
