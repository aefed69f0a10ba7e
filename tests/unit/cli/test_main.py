# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from rpent_box.cli import app as app_module
from rpent_box.cli.app import app
from rpent_box.cli.main import main
from rpent_box.version import PROTOCOL_VERSION, __version__

COMMANDS = ("run", "serve", "list", "doctor", "build", "gc", "version")


def test_the_help_names_every_command() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for command in COMMANDS:
        assert f" {command} " in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("word", ["--help", "-h"])
def test_every_command_explains_itself(command: str, word: str) -> None:
    result = CliRunner().invoke(app, [command, word])
    assert result.exit_code == 0
    assert "--json" in result.stdout


def test_the_help_of_run_tells_exit_codes_and_rpents_spellings() -> None:
    text = " ".join(CliRunner().invoke(app, ["run", "--help"]).stdout.split())
    assert "0 when the run completed" in text
    assert "--am-backend" in text


def test_version_tells_the_protocol_too() -> None:
    assert f"rpent-box {__version__} (protocol {PROTOCOL_VERSION}," in (
        CliRunner().invoke(app, ["version"]).stdout
    )
    facts = json.loads(CliRunner().invoke(app, ["version", "--json"]).stdout)
    assert (facts["version"], facts["protocol"]) == (__version__, PROTOCOL_VERSION)


def test_wrong_usage_leaves_through_main_as_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["rpent-box", "dance"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "dance" in capsys.readouterr().err


def test_ctrl_c_before_a_command_has_begun_shows_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*, prog_name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app_module, "app", interrupted)
    assert main() == 130
    assert capsys.readouterr().err == "stopped\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_defect(closed: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m rpent_box.cli.main version {closed}"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("rpent-box ") == (">&-" not in closed.replace("2>&-", ""))
