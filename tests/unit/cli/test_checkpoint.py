# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from rpent_box import plugins
from rpent_box.cli.app import app
from rpent_box.cli.show_checkpoint import render_checkpoint, size_in_words
from rpent_box.contracts.checkpoint import WRITTEN_FILE, CheckpointFile, CheckpointManifest
from rpent_box.launch.checkpoints import read_written

pytestmark = pytest.mark.usefixtures("toy")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint of the toy, and a cache that is not the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "toys"
    path.mkdir()
    (path / "toy.json").write_text("{}")
    return path


def inspect(path: Path, *words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(
        app, ["checkpoint", "inspect", str(path), "--backend", "toy", *words]
    )
    return result.exit_code, result.stdout, result.stderr


def test_the_first_look_writes_what_it_saw(folder: Path) -> None:
    code, out, err = inspect(folder, "--suite", "toy_easy")
    assert (code, err) == (0, "")
    assert out.startswith("toys: toy for toy\n")
    assert re.search(r"weights  toy\.json   2 B  44136fa355b3678a…\n", out)
    assert re.search(r"suites +toy_easy\n", out)
    assert f"{folder / WRITTEN_FILE} (written)" in re.sub(r"\s+", " ", out)
    written = read_written(folder)
    assert written is not None
    assert written.suites == ("toy_easy",)


def test_the_next_look_compares_and_keeps_the_suites(folder: Path) -> None:
    inspect(folder, "--suite", "toy_easy")
    before = (folder / WRITTEN_FILE).read_bytes()
    code, out, _ = inspect(folder)
    assert code == 0
    assert "(agrees)" in out
    assert re.search(r"suites +toy_easy\n", out)
    assert (folder / WRITTEN_FILE).read_bytes() == before


def test_files_that_changed_are_wrong_usage_until_they_are_meant(folder: Path) -> None:
    inspect(folder, "--suite", "toy_easy")
    (folder / "toy.json").write_text('{"new": 1}')
    code, out, err = inspect(folder)
    assert (code, out) == (2, "")
    assert "the weights toy.json changed: it has 10 bytes" in err
    command = f"rpent-box checkpoint inspect {folder} --backend toy --platform toy"
    assert f"{command} --suite toy_easy --write" in err
    code, out, _ = inspect(folder, "--write")
    assert code == 0
    assert "(renewed)" in out
    # What the old files were good for says nothing about the new ones.
    assert "neither the files nor you said" in re.sub(r"\s+", " ", out)
    assert inspect(folder)[0] == 0


def test_another_suite_must_be_meant(folder: Path) -> None:
    inspect(folder, "--suite", "toy_easy")
    code, _, err = inspect(folder, "--suite", "toy_hard")
    assert code == 2
    assert "was written for toy_easy, not for toy_hard" in err
    assert "next:  Leave --suite out, or, if this is meant, renew it: --write" in err
    assert inspect(folder, "--suite", "toy_hard", "--write")[0] == 0
    assert re.search(r"suites +toy_hard\n", inspect(folder)[1])


def test_a_suite_that_is_named_later_is_written_as_the_page_promises(folder: Path) -> None:
    assert "--suite NAME ties them" in re.sub(r"\s+", " ", inspect(folder)[1])
    code, out, _ = inspect(folder, "--suite", "toy_easy", "--no-write")
    assert code == 0
    assert "not written (--write writes it)" in out
    written = read_written(folder)
    assert written is not None
    assert written.suites == ()
    code, out, _ = inspect(folder, "--suite", "toy_easy")
    assert code == 0
    assert "(renewed)" in out
    written = read_written(folder)
    assert written is not None
    assert written.suites == ("toy_easy",)


def test_more_suites_than_are_written_must_be_meant(folder: Path) -> None:
    inspect(folder, "--suite", "toy_easy")
    both = ("--suite", "toy_easy", "--suite", "toy_hard")
    code, _, err = inspect(folder, *both)
    assert code == 2
    assert "was written for toy_easy, not for toy_easy, toy_hard" in err
    assert inspect(folder, *both, "--write")[0] == 0
    assert re.search(r"suites +toy_easy, toy_hard\n", inspect(folder)[1])


def test_a_tie_to_some_of_the_suites_that_the_files_name_stays(folder: Path) -> None:
    (folder / "toy.json").write_text('{"suites": ["toy_easy", "toy_hard"]}')
    inspect(folder, "--suite", "toy_hard")
    code, out, err = inspect(folder)
    assert (code, err) == (0, "")
    assert re.search(r"suites +toy_hard\n", out)


def test_a_name_that_is_no_text_is_wrong_usage(folder: Path) -> None:
    odd = folder.rename(os.fsdecode(os.fsencode(folder) + b"\xff"))
    code, out, err = inspect(odd, "--json")
    assert code == 2
    assert json.loads(out)["error"]["code"] == "bad_checkpoint"
    assert "is no UTF-8 text" in err


def test_suites_that_the_files_name_need_not_be_given(folder: Path) -> None:
    (folder / "toy.json").write_text('{"suites": ["toy_hard"]}')
    code, _, err = inspect(folder, "--suite", "toy_easy")
    assert code == 2
    assert "the files say that they are for toy_hard, and not for toy_easy" in err
    assert re.search(r"suites +toy_hard\n", inspect(folder)[1])


def test_nothing_is_written_when_asked(folder: Path) -> None:
    code, out, _ = inspect(folder, "--no-write")
    assert code == 0
    assert "not written (--write writes it)" in out
    assert [path.name for path in folder.iterdir()] == ["toy.json"]


def test_a_manifest_that_is_damaged_is_wrong_usage_until_renewed(folder: Path) -> None:
    (folder / WRITTEN_FILE).write_text("{")
    assert inspect(folder)[0] == 2
    assert inspect(folder, "--write")[0] == 0
    assert inspect(folder)[0] == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_said_and_the_manifest_shown(folder: Path) -> None:
    folder.chmod(0o500)
    unwritable(folder)


def test_a_manifest_that_cannot_be_written_is_said_and_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, data: bytes) -> None:
        raise checkpoints.OutputError(f"{path} cannot be written: Read-only file system")

    from rpent_box.cli import checkpoint as checkpoints

    monkeypatch.setattr("rpent_box.launch.checkpoints.write_atomically", refuse)
    unwritable(folder)


def unwritable(folder: Path) -> None:
    code, out, err = inspect(folder)
    assert code == 0
    assert f"This is what {folder / WRITTEN_FILE} would hold:" in out
    assert json.loads(out[out.index("{") :])["backend"] == "toy"
    assert "not written" in err
    assert "--output FILE" in err
    code, _, err = inspect(folder, "--write")
    assert code == 1
    assert "--output FILE" in err


def test_it_is_written_elsewhere_when_asked(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "manifest.json"
    code, out, _ = inspect(folder, "--output", str(elsewhere))
    assert code == 0
    assert f"{elsewhere} (written)" in re.sub(r"\s+", " ", out)
    assert json.loads(elsewhere.read_bytes())["checkpoint"] == "toys"
    assert not (folder / WRITTEN_FILE).exists()
    assert inspect(folder, "--output", str(elsewhere), "--no-write")[0] == 2


def test_json_prints_one_object(folder: Path) -> None:
    code, out, _ = inspect(folder, "--json", "--suite", "toy_easy")
    shown = json.loads(out)
    assert code == 0
    assert shown["state"] == "written"
    assert shown["manifest"]["suites"] == ["toy_easy"]
    assert shown["manifest"]["files"][0]["path"] == "toy.json"
    (folder / "toy.json").write_text('{"new": 1}')
    code, out, _ = inspect(folder, "--json")
    assert (code, json.loads(out)["error"]["code"]) == (2, "bad_checkpoint")


def test_the_backends_own_options_count(folder: Path) -> None:
    assert re.search(r"noise +0\.25\n", inspect(folder, "--noise", "0.25")[1])
    assert re.search(r"noise +0\.25\n", inspect(folder, "--backend-option", "noise=0.25")[1])
    code, _, err = inspect(folder, "--noize", "1")
    assert code == 2
    assert "Did you mean --noise?" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--suite", "toy_none"), "there is no suite called toy_none on toy"),
        (("--suite", "libero_goal"), "It is a suite of libero: --platform libero"),
        (("--platform", "libero"), "toy has no adapter for the platform libero"),
        (("--backend", "nobody"), "no backend called nobody"),
    ],
)
def test_unknown_names_are_refused(folder: Path, words: tuple[str, str], said: str) -> None:
    code, _, err = inspect(folder, *words)
    assert code == 2
    assert said in err


def test_weights_are_tied_to_the_suite_whose_variants_a_platform_plays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from msgspec.structs import replace
    from rpent_box_toy.platform import PLATFORM

    foggy = [suite for suite in PLATFORM.suites if suite.variant_of]
    plugin = replace(PLATFORM, suites=tuple(foggy))
    monkeypatch.setattr("rpent_box.cli.checkpoint.find_platform", lambda name: plugin)
    assert inspect(folder, "--suite", "toy_easy")[0] == 0
    code, _, err = inspect(folder, "--suite", "toy_hard")
    assert code == 2
    assert "It has: toy_easy_foggy, toy_easy" in err


def test_what_is_no_checkpoint_is_wrong_usage(folder: Path) -> None:
    (folder / "toy.json").unlink()
    code, _, err = inspect(folder)
    assert code == 2
    assert "has no weights: wanted toy.json" in err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"checkpoint_is": "name"}, "names what a service has loaded"),
        ({"inspect": None}, "how to look at one without loading it"),
    ],
)
def test_a_backend_without_files_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], said: str
) -> None:
    spec = replace(plugins.find_backend("toy"), **change)
    monkeypatch.setattr("rpent_box.cli.checkpoint.find_backend", lambda name: spec)
    code, _, err = inspect(folder)
    assert code == 2
    assert said in err


def test_a_worker_is_not_started_with_a_checkpoint_that_changed(folder: Path) -> None:
    inspect(folder)
    (folder / "toy.json").write_text('{"new": 1}')
    result = CliRunner().invoke(
        app,
        ["serve", "toy", "--checkpoint", str(folder), "--launcher", "process", "--python", "/p"],
    )
    assert result.exit_code == 2
    assert "the weights toy.json changed" in result.stderr
    assert "worker:" not in result.stderr


def test_a_long_path_is_shown_by_its_end_within_a_hundred_columns(folder: Path) -> None:
    manifest = CheckpointManifest(
        backend="toy",
        platform="toy",
        checkpoint="toys",
        files=(
            CheckpointFile(
                role="index of the weights", path="/deep" * 30, size=999_900, sha256="a" * 64
            ),
        ),
        facts={"instructions": "pick it up and put it down; " * 20},
    )
    text = render_checkpoint(manifest, note="not written")
    assert max(map(len, text.splitlines())) <= 100
    assert re.search(r" …[/dep]{45}  ", text)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (1_000_000, "1.0 MB"),
        (11_987_000_000, "12.0 GB"),
        (2_000_000_000_000, "2000.0 GB"),
    ],
)
def test_sizes_are_said_as_a_person_reads_them(size: int, words: str) -> None:
    assert size_in_words(size) == words
