# SPDX-License-Identifier: Apache-2.0
"""Where the tests find a robot. The block tasks need nothing else."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

LENT = Path(__file__).resolve().parents[4] / "shared" / "data" / "robotwin-aloha"


@pytest.fixture(scope="session")
def assets() -> Path:
    """Return a folder that holds `assets/` with RoboTwin's robot in it."""
    if importlib.util.find_spec("sapien") is None:
        pytest.skip(
            "RoboTwin's simulator is not in this environment: rpent-box build robotwin --launcher "
            "process, then run pytest with the Python it names"
        )
    named = os.environ.get("ROBOTWIN_ASSETS_PATH")
    folder = Path(named) if named else LENT
    if not (folder / "assets" / "embodiments" / "aloha-agilex").is_dir():
        pytest.skip(
            "RoboTwin's assets are not here: robotwin-download-assets --output DIR, then "
            "ROBOTWIN_ASSETS_PATH=DIR python -m pytest platforms/robotwin/tests"
        )
    return folder.absolute()
