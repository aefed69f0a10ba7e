# SPDX-License-Identifier: Apache-2.0
"""An evaluation's config for other machines: the same files, by paths that mean the same there."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from rpent_box.evaluate.scale.checking import CheckedEvaluation
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.launch.given_paths import with_whole_paths
from rpent_box.worker.backend import BackendSpec


def config_for_others(config: EvalConfig, checked: CheckedEvaluation) -> EvalConfig:
    """Return `config` with absolute paths, and without what is the driver's own affair.

    Nothing is copied to them: what a path names must be there too.
    """
    words, spec = config.backend_arguments, checked.spec
    if spec is not None:
        program = f"rpent-box serve {spec.name}"
        words = tuple(with_whole_paths(spec.options, words, program=program)[0])
    return replace(
        config,
        checkpoint=_checkpoint(config.checkpoint, spec),
        python=_program(config.python),
        platform_python=_program(config.platform_python),
        root=_whole(config.root),
        runtime_dir=_whole(config.runtime_dir),
        cache_dir=_whole(config.cache_dir),
        backend_arguments=words,
        platform_arguments=checked.platform_words,
        output_dir="",
        build_environ=None,
        command=(),
        ray=None,
        ray_nodes=None,
    )


def _checkpoint(checkpoint: str | None, spec: BackendSpec | None) -> str | None:
    is_name = spec is not None and spec.checkpoint_is == "name"
    return checkpoint if is_name else _whole(checkpoint)


def _whole(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())


def _program(path: str | None) -> str | None:
    # A name without a folder is looked for where programs are, there as here.
    return path if path is None or os.sep not in path else _whole(path)
