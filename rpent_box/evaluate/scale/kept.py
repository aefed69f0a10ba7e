# SPDX-License-Identifier: Apache-2.0
"""An evaluation that has a folder to itself: begun where there is none, else gone on with."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.evaluation import resume_evaluation, run_evaluation
from rpent_box.evaluate.scale.manifest import EVAL_FILE
from rpent_box.evaluate.scale.summary import EvalSummary
from rpent_box.evaluate.scale.watcher import EvalWatcher


def play_kept(folder: Path, config: EvalConfig, watcher: EvalWatcher) -> EvalSummary:
    """Play `config`, or what is left of it, within `folder`, which is for this evaluation alone.

    Raises as `run_evaluation` and `resume_evaluation` do: `UsageError` also where another plan was
    begun there.
    """
    config = replace(config, output_dir=str(folder))
    begun = find_kept(folder)
    if begun is None:
        return run_evaluation(config, watcher)
    return resume_evaluation(begun, config, watcher)


def find_kept(folder: Path) -> Path | None:
    """Return the evaluation within `folder`; None where there is none yet."""
    try:
        names = sorted(os.listdir(folder), reverse=True)
    except OSError:
        return None
    return next((folder / name for name in names if (folder / name / EVAL_FILE).is_file()), None)
