# SPDX-License-Identifier: Apache-2.0
"""What LIBERO's packages expect of the process that imports them, provided beforehand.

They want a home, write caches and a log where they please, and read a configuration of the user's.
Here they get one temporary folder, so that they import with stdin closed, as any user, without a
home, on a read-only root, and find the same files on every machine.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rpent_box.errors import SimulatorError

RENDERERS = ("osmesa", "egl")


@contextmanager
def prepared_process() -> Iterator[Path]:
    """Prepare this process for LIBERO; yield a folder that exists until the block ends.

    Raises `SimulatorError` when no renderer was chosen or the simulator is not installed.
    """
    check_renderer(os.environ)
    robosuite = _package_folder("robosuite")
    folder = Path(tempfile.mkdtemp(prefix="rpent-box-libero-"))
    try:
        _write_libero_config(folder)
        _provide_homes(folder)
        _provide_numba_cache(folder, robosuite)
        _quieten_robosuite(robosuite)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_renderer(environment: Mapping[str, str]) -> str:
    """Return the chosen renderer. Raises `SimulatorError` unless both libraries agree on one."""
    mujoco, opengl = environment.get("MUJOCO_GL", ""), environment.get("PYOPENGL_PLATFORM", "")
    if mujoco in RENDERERS and mujoco == opengl:
        return mujoco
    raise SimulatorError(
        f"MUJOCO_GL is {mujoco!r} and PYOPENGL_PLATFORM is {opengl!r}; libero needs both set to "
        f"{' or both to '.join(RENDERERS)} before its process starts",
        hint="For software rendering: export MUJOCO_GL=osmesa PYOPENGL_PLATFORM=osmesa",
    )


def _package_folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise SimulatorError(
            f"{name} is not installed for {sys.executable}",
            hint="Install the simulator: rpent-box build libero",
        )
    return Path(spec.submodule_search_locations[0])


def _write_libero_config(folder: Path) -> None:
    # A user's own file could point elsewhere; some builds ask for one on stdin.
    root = _package_folder("libero") / "libero"
    lines = {
        "benchmark_root": root,
        "bddl_files": root / "bddl_files",
        "init_states": root / "init_files",
    }
    text = "".join(f'{key}: "{path}"\n' for key, path in lines.items())
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    os.environ["LIBERO_CONFIG_PATH"] = str(folder)


def _provide_homes(folder: Path) -> None:
    # A user id without an entry in the password file has no home, and LIBERO asks for one.
    os.environ.setdefault("HOME", str(folder))
    os.environ.setdefault("MPLCONFIGDIR", str(folder))


def _provide_numba_cache(folder: Path, robosuite: Path) -> None:
    # Compiling robosuite's rotations takes 4.5 s, so the results are kept beside their source.
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


def _quieten_robosuite(robosuite: Path) -> None:
    # Its settings are read while it is imported. The log would be /tmp/robosuite.log, which another
    # user of this machine may own; the warnings ask for a settings file that nobody needs.
    if "robosuite.macros" in sys.modules:
        return
    spec = importlib.util.spec_from_file_location("robosuite.macros", robosuite / "macros.py")
    if spec is None or spec.loader is None:
        raise SimulatorError(f"robosuite has no macros.py in {robosuite}")
    macros = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(macros)
    macros.FILE_LOGGING_LEVEL = None  # type: ignore[attr-defined]
    macros.CONSOLE_LOGGING_LEVEL = "ERROR"  # type: ignore[attr-defined]
    sys.modules["robosuite.macros"] = macros
