# SPDX-License-Identifier: Apache-2.0
"""`make run` makes its environment once, however many ask for it and however often it is broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, str(Path(__file__).parents[2] / "images" / "base" / "make_venv.py")]


def test_of_two_makers_one_waits_for_the_other(tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    makers = [subprocess.Popen([*COMMAND, str(folder)]) for _ in range(2)]
    assert [maker.wait(timeout=120) for maker in makers] == [0, 0]
    asked = [str(folder / "bin" / "python"), "-m", "pip", "--version"]
    assert subprocess.run(asked, capture_output=True, timeout=60).returncode == 0


def test_what_was_left_half_made_is_finished(tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    without_pip = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(without_pip, check=True, timeout=60)
    subprocess.run([*COMMAND, str(folder)], check=True, timeout=120)
    asked = [str(folder / "bin" / "python"), "-m", "pip", "--version"]
    assert subprocess.run(asked, capture_output=True, timeout=60).returncode == 0
