# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest
from mini_wam_parts import manifest

from rpent_box.backends.mini_wam.checkpoint import inspect
from rpent_box.backends.mini_wam.manifest import (
    FUTURE_FILE,
    MANIFEST_FILE,
    WEIGHTS_FILE,
    Manifest,
    Statistics,
    read_checkpoint,
)
from rpent_box.backends.mini_wam.options import MiniWamOptions
from rpent_box.errors import BadCheckpoint, BadOption

WEIGHTS = b"not really a network"
FUTURE = b"nor is this"


def checkpoint(folder: Path, written: Manifest | None = None) -> Path:
    (folder / WEIGHTS_FILE).write_bytes(WEIGHTS)
    (folder / FUTURE_FILE).write_bytes(FUTURE)
    (folder / MANIFEST_FILE).write_bytes(msgspec.json.encode(written or good()))
    return folder


def good() -> Manifest:
    return manifest(
        weights_sha256=hashlib.sha256(WEIGHTS).hexdigest(),
        future_sha256=hashlib.sha256(FUTURE).hexdigest(),
    )


def read(folder: Path, platform: str = "libero") -> Manifest:
    return read_checkpoint(folder, platforms=[platform], name="mine").manifest


def test_a_whole_checkpoint_is_read(tmp_path: Path) -> None:
    assert read(checkpoint(tmp_path)).action_horizon == 10


def test_an_empty_folder_is_refused_with_the_names_of_the_files_it_wants(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"mini_wam\.json") as caught:
        read(tmp_path)
    assert WEIGHTS_FILE in caught.value.hint


@pytest.mark.parametrize("file", [WEIGHTS_FILE, FUTURE_FILE])
def test_missing_weights_are_refused(tmp_path: Path, file: str) -> None:
    (checkpoint(tmp_path) / file).unlink()
    with pytest.raises(BadCheckpoint, match="No such file"):
        read(tmp_path)


@pytest.mark.parametrize("file", [WEIGHTS_FILE, FUTURE_FILE])
def test_weights_of_another_manifest_are_refused(tmp_path: Path, file: str) -> None:
    (checkpoint(tmp_path) / file).write_bytes(b"something else")
    with pytest.raises(BadCheckpoint, match="SHA-256"):
        read(tmp_path)


def test_edited_statistics_are_refused(tmp_path: Path) -> None:
    path = checkpoint(tmp_path) / MANIFEST_FILE
    values = msgspec.json.decode(path.read_bytes())
    values["statistics"]["proprio_mean"][0] += 0.1
    path.write_bytes(msgspec.json.encode(values))
    with pytest.raises(BadCheckpoint, match="statistics"):
        read(tmp_path)


def test_a_checkpoint_for_another_platform_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="trained for libero, not for robotwin"):
        read(checkpoint(tmp_path), platform="robotwin")


def test_another_reading_of_instructions_is_refused(tmp_path: Path) -> None:
    other = msgspec.structs.replace(good(), text_encoding="hashed-ngrams.v2")
    with pytest.raises(BadCheckpoint, match=r"hashed-ngrams\.v2"):
        read(checkpoint(tmp_path, other))


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 1}', b'{"surprise": 1}'])
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (checkpoint(tmp_path) / MANIFEST_FILE).write_bytes(content)
    with pytest.raises(BadCheckpoint, match="not a mini-wam manifest"):
        read(tmp_path)


@pytest.mark.parametrize(
    "statistics",
    [
        Statistics(proprio_mean=(0.0,) * 9, proprio_deviation=(1.0,) * 8 + (0.0,)),
        Statistics(proprio_mean=(0.0,) * 8, proprio_deviation=(1.0,) * 8),
    ],
)
def test_statistics_that_cannot_normalise_are_refused(
    tmp_path: Path, statistics: Statistics
) -> None:
    other = msgspec.structs.replace(
        good(), statistics=statistics, statistics_sha256=statistics.sha256()
    )
    with pytest.raises(BadCheckpoint, match="cannot normalise 9 numbers"):
        read(checkpoint(tmp_path, other))


def test_an_inspection_names_every_file_and_what_decides_the_actions(tmp_path: Path) -> None:
    taught = msgspec.structs.replace(good(), data={"rows_by_lesson": "libero_spatial-0 9"})
    found = inspect(MiniWamOptions(), checkpoint(tmp_path, taught), "libero")
    assert {file.role: Path(file.path).name for file in found.files} == {
        "weights": WEIGHTS_FILE,
        "future weights": FUTURE_FILE,
        "statistics": MANIFEST_FILE,
    }
    assert found.facts["action_horizon"] == "10"
    assert found.facts["rows_by_lesson"] == "libero_spatial-0 9"
    assert found.suites == ()


def test_what_was_trained_for_libero_plays_on_its_variants_too(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    on_libero, on_variants = (
        inspect(MiniWamOptions(), folder, platform) for platform in ("libero", "libero-pro")
    )
    assert on_libero == on_variants


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"action_space": "libero.other.v9"}, "acts in libero.other.v9"),
        ({"image_size": 64}, "at 64 pixels"),
        ({"camera_roles": ("wrist",)}, "looks through wrist"),
    ],
)
def test_an_inspection_refuses_what_this_version_could_not_act_with(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    other = msgspec.structs.replace(good(), **change)
    with pytest.raises(BadCheckpoint, match=reason):
        inspect(MiniWamOptions(), checkpoint(tmp_path, other), "libero")


def test_a_platform_without_an_adapter_cannot_be_inspected_for(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="no adapter for the platform robotwin"):
        inspect(MiniWamOptions(), checkpoint(tmp_path), "robotwin")
