# SPDX-License-Identifier: Apache-2.0
"""Run any robot action model on any simulator, each in its own box."""

from rpent_box.version import __version__

__all__ = ["__version__"]
