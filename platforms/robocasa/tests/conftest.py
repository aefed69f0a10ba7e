# SPDX-License-Identifier: Apache-2.0
"""The renderer is chosen, and stand-in assets are written, before the simulator is imported."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from rpent_box_robocasa import PLATFORM

sys.path.insert(0, str(Path(__file__).parent))  # standin_kitchen lies beside the tests

for _name, _value in PLATFORM.environment.items():
    os.environ.setdefault(_name, _value)


@pytest.fixture(scope="session")
def standins(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder that RoboCasa takes for its assets, made of boxes: see standin_kitchen.py."""
    if importlib.util.find_spec("robocasa") is None:
        pytest.skip(
            "RoboCasa is not in this Python; "
            "rpent-box build --launcher process robocasa makes one that has it"
        )
    from standin_kitchen import write_assets

    return str(write_assets(tmp_path_factory.mktemp("standins")))
