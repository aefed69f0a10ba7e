# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rpent_box.cli.app import app
from rpent_box.launch.sweep import SweepReport


def invoke(
    monkeypatch: pytest.MonkeyPatch, report: SweepReport, *words: str
) -> tuple[int, str, list[str | None]]:
    asked = []

    def sweep(runtime_dir: str | None, *, containers: bool, dry_run: bool) -> SweepReport:
        assert containers
        assert dry_run == ("--dry-run" in words)
        asked.append(runtime_dir)
        return report

    monkeypatch.setattr("rpent_box.cli.gc.sweep", sweep)
    monkeypatch.setenv("RPENT_BOX_RUNTIME_DIR", "/rooms")
    result = CliRunner().invoke(app, ["gc", *words])
    return result.exit_code, result.stdout, asked


def test_each_thing_that_was_removed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    report = SweepReport(
        boxes=("1a2b3c4d",),
        programs=("worker mini-wam (process 7)",),
        segments=("/rpent-box.1a2b3c4d.sim-0",),
        living=("99999999",),
    )
    code, text, asked = invoke(monkeypatch, report)
    assert code == 0
    assert asked == ["/rooms"]
    assert text.splitlines() == [
        "removed box 1a2b3c4d",
        "ended worker mini-wam (process 7)",
        "removed shared memory /rpent-box.1a2b3c4d.sim-0",
        "in use and untouched: box 99999999",
    ]


def test_a_clean_machine_is_called_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke(monkeypatch, SweepReport())[:2] == (0, "nothing was left behind\n")


def test_what_could_not_be_removed_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text, _ = invoke(monkeypatch, SweepReport(left=("/dev/shm/x: busy",)))
    assert code == 1
    assert "could not remove /dev/shm/x: busy" in text


def test_a_dry_run_says_what_would_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    report = SweepReport(boxes=("1a2b3c4d",), programs=("process 7",))
    code, text, _ = invoke(monkeypatch, report, "--dry-run")
    assert code == 0
    assert text.splitlines() == ["would remove box 1a2b3c4d", "would end process 7"]


def test_json_prints_the_report_as_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    _, text, _ = invoke(monkeypatch, SweepReport(boxes=("1a2b3c4d",)), "--json")
    assert json.loads(text)["boxes"] == ["1a2b3c4d"]
