# SPDX-License-Identifier: Apache-2.0
"""An evaluation's config for other machines: the same files, by paths that mean the same there."""

from __future__ import annotations

from msgspec.structs import replace

from rpent_box.evaluate.checking import from_anywhere
from rpent_box.evaluate.scale.checking import CheckedEvaluation
from rpent_box.evaluate.scale.config import EvalConfig


def config_for_others(config: EvalConfig, checked: CheckedEvaluation) -> EvalConfig:
    """Return `config` with absolute paths, and without what is the driver's own affair.

    Nothing is copied to them: what a path names must be there too.
    """
    return replace(
        from_anywhere(config, checked),
        output_dir="",
        build_environ=None,
        command=(),
        ray=None,
        ray_nodes=None,
    )
