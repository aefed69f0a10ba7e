# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rpent_box.errors import EnvironmentMissing
from rpent_box.evaluate.stages.pythons import missing_modules


def test_what_a_python_lacks_is_named_without_importing_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "explodes.py").write_text("raise RuntimeError\n")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    asked = ["json", "no_such_module", "explodes", "neither_this"]
    assert missing_modules(sys.executable, asked, environ=environ) == [
        "no_such_module",
        "neither_this",
    ]


def test_a_python_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="there is no Python at"):
        missing_modules(str(tmp_path / "python"), ["json"], environ={})
    with pytest.raises(EnvironmentMissing, match="no Python that works: exit code 1"):
        missing_modules("/bin/false", ["json"], environ={})
