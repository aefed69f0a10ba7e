# SPDX-License-Identifier: Apache-2.0
"""In which Python each stage of making mini-wam runs, and whether that has what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from rpent_box.errors import EnvironmentMissing
from rpent_box.evaluate.stages.pythons import missing_modules
from rpent_box.launch.environments import add_extras, require_environment

PLATFORM = "libero"
EXTRAS = ("mini-wam",)
"""Of rpent-box: the student acts beside the simulator."""
PLATFORM_EXTRAS = ("teaching",)
"""Of the platform's package: demonstrations are written as Parquet."""
TEACHING = ("rpent_box_libero", "libero", "av", "pyarrow", "onnxruntime")
TRAINING = ("rpent_box", "torch", "onnx", "onnxruntime", "pyarrow", "av")


def simulator_python(
    given: str | None, *, build: bool, say: Callable[[str], None], environ: Mapping[str, str]
) -> str:
    """Return the Python that demonstrations are made in: `given`, or the platform's environment.

    With `build` the latter is made where it is missing, with what teaching needs. Raises
    `EnvironmentMissing`, and `LaunchError` when a build fails.
    """
    if given is not None:
        _require(
            given,
            TEACHING,
            environ,
            hint=f"{given} -m pip install 'rpent-box-libero[simulator,teaching]' "
            "'rpent-box[mini-wam]'",
        )
        return given
    if build:
        completed = add_extras(
            *("platform", PLATFORM, EXTRAS),
            project_extras=PLATFORM_EXTRAS,
            say=say,
            environ=environ,
        )
        return str(completed)
    python = str(require_environment("platform", PLATFORM))
    _require(python, TEACHING, environ, hint="Let it be added: --build")
    return python


def training_python(given: str | None, *, environ: Mapping[str, str]) -> str:
    """Return the Python that trains and exports. Raises `EnvironmentMissing`."""
    python = given or sys.executable
    hint = "pip install 'rpent-box[train]'"
    if given is not None:
        hint = f"{given} -m {hint}"
    _require(python, TRAINING, environ, hint=f"{hint}, or name a Python that has it: --python PATH")
    return python


def _require(
    python: str, modules: tuple[str, ...], environ: Mapping[str, str], *, hint: str
) -> None:
    missing = missing_modules(python, modules, environ=environ)
    if missing:
        raise EnvironmentMissing(f"{python} has no {', '.join(missing)}", hint=hint)
