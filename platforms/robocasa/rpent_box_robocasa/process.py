# SPDX-License-Identifier: Apache-2.0
"""What RoboCasa's packages expect of the process that imports them, provided beforehand.

They read settings of the user's, write caches where they please, greet on standard output, and find
their assets through a variable. Here they get one temporary folder, so that they import with stdin
closed, as any user, without a home, on a read-only root, and find the same files everywhere.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from rpent_box.errors import SimulatorError

RENDERERS = ("osmesa", "egl")
ASSETS_VARIABLE = "ROBOCASA_ASSETS_PATH"
_FOLDERS: list[Path] = []
"""Of the blocks that are open, the latest last."""


@contextmanager
def prepared_process(assets_path: str = "") -> Iterator[Path]:
    """Prepare this process for RoboCasa; yield a folder that exists until the block ends.

    Without `assets_path` RoboCasa finds what its package holds, which is no kitchen. The first one
    stays for the life of the process. Raises `SimulatorError` for another one afterwards, when no
    renderer was chosen, or when the simulator is not installed.
    """
    check_renderer(os.environ)
    robosuite = package_folder("robosuite")
    package_folder("robocasa")
    folder = Path(tempfile.mkdtemp(prefix="rpent-box-robocasa-"))
    try:
        _choose_assets(assets_path)
        _provide_homes(folder)
        _provide_numba_cache(folder, robosuite)
        _provide_settings(folder)
        _import_quietly()
        _write_models_in(folder)
        yield folder
    finally:
        _leave(folder)
        shutil.rmtree(folder, ignore_errors=True)


def check_renderer(environment: Mapping[str, str]) -> str:
    """Return the chosen renderer. Raises `SimulatorError` unless both libraries agree on one."""
    mujoco, opengl = environment.get("MUJOCO_GL", ""), environment.get("PYOPENGL_PLATFORM", "")
    if mujoco in RENDERERS and mujoco == opengl:
        return mujoco
    raise SimulatorError(
        f"MUJOCO_GL is {mujoco!r} and PYOPENGL_PLATFORM is {opengl!r}; robocasa needs both set to "
        f"{' or both to '.join(RENDERERS)} before its process starts",
        hint="For software rendering: export MUJOCO_GL=osmesa PYOPENGL_PLATFORM=osmesa",
    )


def package_folder(name: str) -> Path:
    """Return where package `name` is installed. Raises `SimulatorError` when it is not."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise SimulatorError(
            f"{name} is not installed for {sys.executable}",
            hint="Install the simulator: rpent-box build robocasa",
        )
    return Path(spec.submodule_search_locations[0])


def _choose_assets(assets_path: str) -> None:
    # RoboCasa reads it once, at its import.
    imported = sys.modules.get("robocasa.models")
    if imported is not None and assets_path and imported.assets_root != assets_path:
        raise SimulatorError(
            f"robocasa was already imported in this process, with the assets in "
            f"{imported.assets_root}; it cannot change to {assets_path}",
            hint="Use one process for each folder of assets.",
        )
    os.environ.pop(ASSETS_VARIABLE, None)
    if assets_path:
        os.environ[ASSETS_VARIABLE] = assets_path


def _provide_homes(folder: Path) -> None:
    # A user id without an entry in the password file has no home.
    os.environ.setdefault("HOME", str(folder))
    os.environ.setdefault("MPLCONFIGDIR", str(folder))


def _provide_numba_cache(folder: Path, robosuite: Path) -> None:
    # Compiling robosuite's rotations takes seconds, so the results are kept beside their source.
    # Where that place is read-only, numba would refuse it: it gets a copy of what lies there.
    beside = robosuite / "utils" / "__pycache__"
    writable = os.access(beside if beside.is_dir() else beside.parent, os.W_OK)
    if writable or "NUMBA_CACHE_DIR" in os.environ:
        return
    os.environ["NUMBA_CACHE_DIR"] = str(folder / "numba")
    from numba.core.caching import _CacheLocator

    source = str(robosuite / "utils" / "transform_utils.py")
    copy = folder / "numba" / _CacheLocator.get_suitable_cache_subpath(source)
    copy.mkdir(parents=True)
    for cached in beside.glob("transform_utils.*.nb[ic]"):
        shutil.copy(cached, copy)


def _provide_settings(folder: Path) -> None:
    # Both packages look for settings of the user's, which could change physics and pixels, and
    # warn when there are none. Robosuite's are a module, RoboCasa's a file.
    if "robosuite.macros_private" not in sys.modules:
        settings = ModuleType("robosuite.macros_private")
        settings.__dict__.update(CONSOLE_LOGGING_LEVEL="ERROR", FILE_LOGGING_LEVEL=None)
        sys.modules["robosuite.macros_private"] = settings
    empty = folder / "macros_private.py"
    empty.write_text("", encoding="utf-8")
    os.environ["ROBOCASA_MACROS_PATH"] = str(empty)


def _import_quietly() -> None:
    from rpent_box_robocasa.gaps import fill_gaps, keep_counters_in_order
    from rpent_box_robocasa.plans import read_plans_quickly

    with contextlib.redirect_stdout(io.StringIO()):  # RoboCasa greets
        fill_gaps()
        keep_counters_in_order()
        read_plans_quickly()


def _write_models_in(folder: Path) -> None:
    from rpent_box_robocasa.model_files import write_models_in

    _FOLDERS.append(folder)
    write_models_in(folder)


def _leave(folder: Path) -> None:
    # Another block may still be open, and its scenes need a folder that is there.
    if folder in _FOLDERS:
        _FOLDERS.remove(folder)
        if _FOLDERS:
            _write_models_in(_FOLDERS.pop())
