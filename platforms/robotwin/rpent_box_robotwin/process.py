# SPDX-License-Identifier: Apache-2.0
"""What RoboTwin's packages expect of the process that imports them, provided beforehand.

They want a home and caches, name their assets by variables of the environment, and print as they
go. Here they get one temporary folder, so that they import with stdin closed, as any user, without
a home, on a read-only root, and whatever they print goes to the log at its lowest level.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from rpent_box.errors import SimulatorError
from rpent_box_robotwin.standins import stand_ins

_log = logging.getLogger("rpent_box_robotwin")


@contextmanager
def prepared_process() -> Iterator[Path]:
    """Prepare this process for RoboTwin; yield a folder that exists until the block ends.

    Raises `SimulatorError` when the simulator is not installed.
    """
    for name in ("sapien", "mplib", "robotwin"):
        _require(name)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="rpent-box-robotwin-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        # A user id without an entry in the password file has no home, and two packages want one.
        homes = {name: str(folder) for name in ("HOME", "MPLCONFIGDIR") if name not in os.environ}
        stack.enter_context(_environment(homes))
        if os.environ.get("VK_ICD_FILENAMES") == "":
            # Vulkan takes an empty list at its word and finds no device.
            stack.enter_context(_environment({"VK_ICD_FILENAMES": None}))
        yield folder


@contextmanager
def assets_in(root: Path) -> Iterator[None]:
    """Let the runtime find its assets in `root`, the folder that holds `assets/`.

    Without these variables it looks below the working directory.
    """
    with _environment({"ASSETS_PATH": str(root), "ROBOTWIN_ASSETS_ROOT": str(root)}):
        yield


@contextmanager
def quiet(*, errors: bool = False) -> Iterator[None]:
    """Keep what is printed inside from the screen, and with `errors` what goes to stderr too."""
    said = io.StringIO()
    try:
        with ExitStack() as stack:
            stack.enter_context(redirect_stdout(said))
            if errors:
                stack.enter_context(redirect_stderr(said))
            yield
    finally:
        if _log.isEnabledFor(logging.DEBUG):
            for line in said.getvalue().splitlines():
                _log.debug("robotwin printed: %s", line)


def import_runtime() -> None:
    """Import what every task needs, which takes a second. Call it inside `prepared_process`."""
    if "robotwin.envs._base_task" in sys.modules:
        return
    with stand_ins(), quiet(errors=True):
        importlib.import_module("robotwin.envs._base_task")


def _require(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        raise SimulatorError(
            f"{name} is not installed for {sys.executable}",
            hint="Install the simulator: rpent-box build robotwin",
        )


@contextmanager
def _environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set these variables, None to remove one, and put them back afterwards."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
