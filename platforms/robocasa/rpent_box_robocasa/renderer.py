# SPDX-License-Identifier: Apache-2.0
"""What draws. Import this module inside `prepared_process`."""

from __future__ import annotations

import os

from rpent_box.errors import SimulatorError
from rpent_box_robocasa.process import check_renderer


def describe_renderer() -> str:
    """Make a small GL context and return who answers, e.g. `osmesa: Mesa, llvmpipe (LLVM 15)`.

    Raises `SimulatorError` when there is none to be had.
    """
    chosen = check_renderer(os.environ)
    try:
        return f"{chosen}: {_name()}"
    except (ImportError, AttributeError, RuntimeError, OSError) as error:
        # PyOpenGL says AttributeError for a library that it cannot find.
        raise SimulatorError(f"{chosen} cannot draw here: {error}", hint=_HINTS[chosen]) from error


_HINTS = {
    "osmesa": "Install software rendering: apt-get install libosmesa6",
    "egl": "Install EGL: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri, "
    "or draw in software: MUJOCO_GL=osmesa PYOPENGL_PLATFORM=osmesa",
}


def _name() -> str:
    from mujoco.gl_context import GLContext

    context = GLContext(64, 64)
    try:
        context.make_current()
        from OpenGL import GL

        return ", ".join(GL.glGetString(key).decode() for key in (GL.GL_VENDOR, GL.GL_RENDERER))
    finally:
        context.free()
