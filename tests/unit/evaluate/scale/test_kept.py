# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from rpent_box.evaluate.scale import kept
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.manifest import EVAL_FILE
from rpent_box.evaluate.scale.watcher import EvalWatcher, SilentEvalWatcher


def test_an_evaluation_is_begun_once_and_then_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []

    def run(config: EvalConfig, watcher: EvalWatcher) -> None:
        calls.append(("run", config.output_dir))
        # What was begun without an evaluation in it counts for nothing.
        (tmp_path / "20260103T-logs").mkdir()
        for name in ("20260101T-a", "20260102T-b"):
            (tmp_path / name).mkdir()
            (tmp_path / name / EVAL_FILE).write_text("{}")

    def resume(run_dir: Path, config: EvalConfig, watcher: EvalWatcher) -> None:
        calls.append(("resume", run_dir.name))

    monkeypatch.setattr(kept, "run_evaluation", run)
    monkeypatch.setattr(kept, "resume_evaluation", resume)
    for _ in range(2):
        kept.play_kept(tmp_path, EvalConfig(platform="toy"), SilentEvalWatcher())
    assert calls == [("run", str(tmp_path)), ("resume", "20260102T-b")]


def test_a_folder_that_is_not_there_holds_no_evaluation(tmp_path: Path) -> None:
    assert kept.find_kept(tmp_path / "none") is None
