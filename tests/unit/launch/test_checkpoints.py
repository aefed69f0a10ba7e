# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta, Struct
from msgspec.structs import replace

from rpent_box.backends.checkpoint_files import find_files, require_file
from rpent_box.contracts.checkpoint import WRITTEN_FILE, CheckpointManifest, Inspection
from rpent_box.errors import BadCheckpoint
from rpent_box.launch.checkpoints import (
    checkpoint_of_run,
    inspect_checkpoint,
    read_written,
    require_agreement,
    require_usable,
    tying_path,
    write_manifest,
    written_path,
)
from rpent_box.sim.platform import Suite
from rpent_box.worker.backend import BackendSpec


class Options(Struct, frozen=True, kw_only=True):
    statistics: Annotated[str, Meta(description="Elsewhere.", extra={"path": True})] = ""
    suites: str = ""
    service: str = ""


def inspect(options: Options, path: Path, platform: str) -> Inspection:
    """Weights are whatever ends in .pt; statistics lie with them, or where an option says."""
    if path.is_file():
        return Inspection(files=(require_file(path, role="weights"),))
    weights = find_files(path, "*.pt", role="weights")
    statistics = require_file(options.statistics or path / "stats.json", role="statistics")
    return Inspection(
        # A file may be named twice, e.g. weights that hold a tokenizer; one line is enough.
        files=(*weights, statistics, statistics),
        facts={"action_horizon": "32", "platform": platform},
        suites=tuple(options.suites.split(",")) if options.suites else (),
    )


SPEC = BackendSpec(
    name="wander",
    kind="wam",
    summary="",
    options=Options,
    load=lambda options, context: pytest.fail("nothing is loaded here"),
    inspect=inspect,
    platforms=("libero",),
    action_spaces=(),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "ours"
    path.mkdir()
    (path / "a.pt").write_bytes(b"half of the weights")
    (path / "b.pt").write_bytes(b"the other half")
    (path / "stats.json").write_text('{"of": "libero_spatial"}')
    return path


DEFAULTS = Options()


def look(path: Path, *suites: str, options: Options = DEFAULTS) -> CheckpointManifest:
    return inspect_checkpoint(SPEC, options, path, "libero", suites, say=lambda text: None)


def suite_called(name: str, *, variant_of: str = "") -> Suite:
    return Suite(name=name, tasks=("one",), max_steps=1, init_states=1, variant_of=variant_of)


def run(
    path: Path | None, suite: str | None = None, *words: str, spec: BackendSpec = SPEC
) -> CheckpointManifest | None:
    given = None if path is None else str(path)
    played = None if suite is None else suite_called(suite)
    return checkpoint_of_run(spec, words, given, "libero", played, say=lambda text: None)


def tie(path: Path, *suites: str) -> None:
    write_manifest(written_path(path), look(path, *suites))


def test_a_manifest_names_every_file_with_its_hash(folder: Path) -> None:
    manifest = look(folder)
    assert (manifest.backend, manifest.platform, manifest.checkpoint) == (
        "wander",
        "libero",
        "ours",
    )
    assert [(file.role, file.path) for file in manifest.files] == [
        ("weights", "a.pt"),
        ("weights", "b.pt"),
        ("statistics", "stats.json"),
    ]
    assert manifest.files[0].size == 19
    assert manifest.files[0].sha256 == hashlib.sha256(b"half of the weights").hexdigest()
    assert manifest.facts["action_horizon"] == "32"
    assert manifest.suites == ()


def test_a_file_outside_is_named_by_its_whole_path(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "stats.json"
    elsewhere.write_text("{}")
    manifest = look(folder, options=Options(statistics=str(elsewhere)))
    assert manifest.files[-1].path == str(elsewhere)


def test_a_relative_path_is_the_callers_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert look(Path("ours")) == look(folder)


def test_a_single_file_is_a_checkpoint_too(folder: Path) -> None:
    manifest = look(folder / "a.pt")
    assert [(file.path, file.size) for file in manifest.files] == [("a.pt", 19)]
    assert written_path(folder / "a.pt") == folder / f"a.pt.{WRITTEN_FILE}"
    tie(folder / "a.pt", "libero_spatial")
    with pytest.raises(BadCheckpoint, match="trained on libero_spatial"):
        run(folder / "a.pt", "libero_10")


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="there is no checkpoint at"):
        look(tmp_path / "nowhere")


def test_what_a_backend_refuses_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"wanted \*\.pt"):
        look(tmp_path)


def test_suites_that_the_files_contradict_are_refused(folder: Path) -> None:
    spatial = Options(suites="libero_spatial,libero_10")
    assert look(folder, options=spatial).suites == ("libero_spatial", "libero_10")
    assert look(folder, "libero_10", options=spatial).suites == ("libero_10",)
    with pytest.raises(BadCheckpoint, match="not for libero_goal"):
        look(folder, "libero_goal", options=spatial)


def test_a_written_manifest_is_read_back_as_it_was(folder: Path) -> None:
    assert read_written(folder) is None
    tie(folder, "libero_spatial")
    assert read_written(folder) == look(folder, "libero_spatial")
    assert (folder / WRITTEN_FILE).is_file()


@pytest.mark.parametrize("content", [b"", b"{", b'{"backend": "wander"}'])
def test_a_written_manifest_that_is_none_is_refused_with_how_to_renew_it(
    folder: Path, content: bytes
) -> None:
    (folder / WRITTEN_FILE).write_bytes(content)
    with pytest.raises(BadCheckpoint, match="is not a checkpoint's manifest") as caught:
        run(folder)
    assert f"rpent-box checkpoint inspect {folder}" in caught.value.hint


def test_a_run_of_an_untied_checkpoint_may_play_anything(folder: Path) -> None:
    manifest = run(folder, "libero_10")
    assert manifest is not None
    assert manifest.suites == ()


def test_a_run_of_another_suite_is_refused(folder: Path) -> None:
    tie(folder, "libero_spatial")
    manifest = run(folder, "libero_spatial")
    assert manifest is not None
    assert manifest.suites == ("libero_spatial",)
    with pytest.raises(BadCheckpoint) as caught:
        run(folder, "libero_10")
    assert caught.value.message == (
        "the checkpoint ours was trained on libero_spatial; you asked for libero_10"
    )


def test_a_variant_of_a_tied_suite_may_be_played_and_one_of_another_may_not(folder: Path) -> None:
    tie(folder, "libero_spatial")
    swapped = suite_called("libero_spatial_swap", variant_of="libero_spatial")
    other = suite_called("libero_goal_swap", variant_of="libero_goal")
    # Tied on the platform `libero`; variants are played on one of another name.
    for play in (
        lambda suite: require_usable(SPEC, (), str(folder), "libero-pro", suite),
        lambda suite: checkpoint_of_run(
            SPEC, (), str(folder), "libero-pro", suite, say=lambda text: None
        ),
    ):
        play(swapped)
        with pytest.raises(BadCheckpoint) as caught:
            play(other)
        assert caught.value.message == (
            "the checkpoint ours was trained on libero_spatial; you asked for libero_goal_swap, "
            "a variant of libero_goal"
        )


def test_what_needs_no_hashing_is_refused_without_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tie(folder, "libero_spatial")
    monkeypatch.setattr(
        "rpent_box.launch.checkpoints.FileHashes", lambda cache: pytest.fail("a file was hashed")
    )
    require_usable(SPEC, (), str(folder), "libero", suite_called("libero_spatial"))
    require_usable(SPEC, (), str(folder), "libero", None)
    require_usable(SPEC, (), None, "libero", suite_called("libero_spatial"))
    with pytest.raises(BadCheckpoint, match="you asked for libero_10"):
        require_usable(SPEC, (), str(folder), "libero", suite_called("libero_10"))
    (folder / "stats.json").unlink()
    with pytest.raises(BadCheckpoint, match="stats.json"):
        require_usable(SPEC, (), str(folder), "libero", suite_called("libero_spatial"))


def test_suites_that_only_the_files_name_count_as_well(folder: Path) -> None:
    with pytest.raises(BadCheckpoint, match="you asked for libero_10"):
        run(folder, "libero_10", "--suites=libero_spatial")


def test_where_the_suite_is_not_known_yet_only_the_files_are_compared(folder: Path) -> None:
    tie(folder, "libero_spatial")
    assert run(folder, None) == look(folder, "libero_spatial")


def test_statistics_of_another_suite_are_refused_though_they_look_right(folder: Path) -> None:
    tie(folder, "libero_spatial")
    (folder / "stats.json").write_text('{"of": "libero_object"}!')
    with pytest.raises(BadCheckpoint) as caught:
        run(folder, "libero_spatial")
    assert "the statistics stats.json changed: it has 24 bytes" in caught.value.message
    assert "and had 24 bytes" in caught.value.message
    assert "--platform libero --suite libero_spatial --write" in caught.value.hint


def test_renewing_takes_the_options_that_the_run_was_given(folder: Path) -> None:
    tie(folder, "libero_spatial")
    other = folder / "of another.json"
    other.write_text("{}")
    with pytest.raises(BadCheckpoint) as caught:
        run(folder, "libero_spatial", f"--statistics={other}")
    command = caught.value.hint.partition("renew it: ")[2]
    assert command.startswith(f"rpent-box checkpoint inspect {folder} --backend wander")
    assert command.endswith(f" --suite libero_spatial '--statistics={other}' --write")


def test_a_file_of_a_tied_folder_is_tied_as_well(folder: Path) -> None:
    tie(folder, "libero_spatial")
    weights = folder / "a.pt"
    assert tying_path(weights) == folder / WRITTEN_FILE
    manifest = run(weights, "libero_spatial")
    assert manifest is not None
    assert manifest.suites == ("libero_spatial",)
    with pytest.raises(BadCheckpoint, match="you asked for libero_10"):
        run(weights, "libero_10")
    weights.write_bytes(b"another half of them")
    with pytest.raises(BadCheckpoint, match=r"the weights a\.pt changed"):
        run(weights, "libero_spatial")


def test_a_file_with_a_manifest_of_its_own_is_tied_by_that_one(folder: Path) -> None:
    tie(folder, "libero_spatial")
    tie(folder / "a.pt", "libero_10")
    assert tying_path(folder / "a.pt") == folder / f"a.pt.{WRITTEN_FILE}"
    assert run(folder / "a.pt", "libero_10") is not None


def test_a_file_that_its_folders_manifest_does_not_list_is_not_tied_by_it(folder: Path) -> None:
    tie(folder, "libero_spatial")
    (folder / "other.pt").write_bytes(b"of another robot")
    assert tying_path(folder / "other.pt") == folder / f"other.pt.{WRITTEN_FILE}"
    assert run(folder / "other.pt", "libero_10") is not None


def test_statistics_from_elsewhere_are_compared_by_what_is_in_them(
    folder: Path, tmp_path: Path
) -> None:
    tie(folder, "libero_spatial")
    elsewhere = tmp_path / "stats.json"
    elsewhere.write_text('{"of": "libero_spatial"}')
    assert run(folder, "libero_spatial", f"--statistics={elsewhere}") is not None
    elsewhere.write_text('{"of": "libero_object"}')
    with pytest.raises(BadCheckpoint, match=r"stats.json \(then stats.json\) changed"):
        run(folder, "libero_spatial", f"--statistics={elsewhere}")


def test_shards_that_changed_places_are_refused(folder: Path) -> None:
    tie(folder)
    (folder / "a.pt").rename(folder / "c")
    (folder / "b.pt").rename(folder / "a.pt")
    (folder / "c").rename(folder / "b.pt")
    with pytest.raises(BadCheckpoint) as caught:
        run(folder)
    assert "weights a.pt changed" in caught.value.message
    assert "weights b.pt changed" in caught.value.message


def test_a_file_that_came_later_is_refused(folder: Path) -> None:
    tie(folder)
    (folder / "c.pt").write_bytes(b"a third half")
    with pytest.raises(BadCheckpoint, match="the weights c.pt is new"):
        run(folder)


def test_what_is_not_read_this_time_is_not_missed(folder: Path) -> None:
    manifest = look(folder)
    fewer = replace(manifest, files=manifest.files[:1])
    require_agreement(fewer, manifest, folder / WRITTEN_FILE)


def test_a_manifest_of_another_backend_is_refused(folder: Path) -> None:
    write_manifest(written_path(folder), replace(look(folder), backend="other"))
    with pytest.raises(BadCheckpoint, match="it was written for other, not for wander"):
        run(folder)


def test_the_folder_may_move(folder: Path, tmp_path: Path) -> None:
    tie(folder, "libero_spatial")
    moved = folder.rename(tmp_path / "theirs")
    assert run(moved, "libero_spatial") is not None


def test_where_no_file_decides_nothing_is_known(folder: Path) -> None:
    assert run(None) is None
    assert run(folder, spec=replace(SPEC, inspect=None)) is None
    borrowing = replace(SPEC, borrows="service")
    assert run(folder, None, "--service=ws://127.0.0.1:1", spec=borrowing) is None
    assert run(folder, spec=borrowing) is not None


def test_of_a_checkpoint_that_is_only_a_name_the_files_that_options_name_count(
    folder: Path,
) -> None:
    def inspect_statistics(options: Options, path: Path, platform: str) -> Inspection:
        assert str(path) == "org/model"
        return Inspection(files=(require_file(options.statistics, role="statistics"),))

    spec = replace(SPEC, checkpoint_is="name", inspect=inspect_statistics)
    words = f"--statistics={folder / 'stats.json'}"
    manifest = run(Path("org/model"), "libero_10", words, spec=spec)
    assert manifest is not None
    assert manifest.checkpoint == "org/model"
    assert [file.role for file in manifest.files] == ["statistics"]
    with pytest.raises(BadCheckpoint, match=r"gone\.json"):
        require_usable(
            spec, ["--statistics=/gone.json"], "org/model", "libero", suite_called("libero_10")
        )


def test_a_path_with_a_space_can_be_copied_from_the_hint(folder: Path, tmp_path: Path) -> None:
    moved = folder.rename(tmp_path / "two words")
    tie(moved)
    (moved / "a.pt").write_bytes(b"new")
    with pytest.raises(BadCheckpoint) as caught:
        run(moved)
    assert f"inspect '{moved}' --backend" in caught.value.hint


def test_a_checkpoint_may_be_tied_to_some_of_the_suites_that_its_files_name(folder: Path) -> None:
    words = "--suites=libero_spatial,libero_10"
    options = Options(suites="libero_spatial,libero_10")
    write_manifest(written_path(folder), look(folder, "libero_10", options=options))
    manifest = run(folder, "libero_10", words)
    assert manifest is not None
    assert manifest.suites == ("libero_10",)
    with pytest.raises(BadCheckpoint, match="trained on libero_10; you asked for libero_spatial"):
        run(folder, "libero_spatial", words)
    with pytest.raises(BadCheckpoint, match="written for libero_10, not for libero_goal"):
        run(folder, None, "--suites=libero_goal")


@pytest.mark.parametrize("place", ["folder", "file"])
def test_a_name_that_no_result_could_hold_is_refused(folder: Path, place: str) -> None:
    if place == "folder":
        folder = folder.rename(os.fsdecode(os.fsencode(folder) + b"\xff"))
    else:
        (folder / "b.pt").rename(os.fsdecode(os.fsencode(folder) + b"/b\xff.pt"))
    with pytest.raises(BadCheckpoint, match=r"\\udcff.* is no UTF-8 text"):
        look(folder)


def test_a_fact_that_no_result_could_hold_is_refused(folder: Path) -> None:
    def odd(options: Options, path: Path, platform: str) -> Inspection:
        return Inspection(files=(), facts={"instruction": "pick \ud800"})

    with pytest.raises(BadCheckpoint, match="is no UTF-8 text"):
        run(folder, spec=replace(SPEC, inspect=odd))


def test_what_may_not_be_read_is_refused_with_its_name(folder: Path) -> None:
    def closed(options: Options, path: Path, platform: str) -> Inspection:
        raise PermissionError(13, "Permission denied", str(path / "inner"))

    with pytest.raises(BadCheckpoint, match="inner cannot be read: Permission denied") as caught:
        run(folder, spec=replace(SPEC, inspect=closed))
    assert caught.value.hint.endswith(f"ls -ld {folder}/inner")


def test_the_home_of_nobody_is_a_name_like_any_other() -> None:
    with pytest.raises(BadCheckpoint, match="there is no checkpoint at .*/~nobody-here/weights"):
        look(Path("~nobody-here/weights"))
