# SPDX-License-Identifier: Apache-2.0
"""Defaults, configuration, options: what wins, and what is refused before anything starts."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from cosmos3_parts import BLOCK, write_statistics

from rpent_box.backends.cosmos3 import BACKEND
from rpent_box.backends.cosmos3.checkpoint import inspect
from rpent_box.backends.cosmos3.options import Cosmos3Options
from rpent_box.backends.cosmos3.settings import check_endpoint, settings_from
from rpent_box.contracts.checkpoint import Inspection
from rpent_box.errors import BadCheckpoint, BadOption
from rpent_box.options import parse_options, path_fields, to_arguments

NAME = Path("nvidia/cosmos3-test")

CONFIG = """
env:
  eval:
    env_type: libero
rollout:
  model:
    raw_action_dim: 10
    action_dim: 7
    action_normalization: quantile_rot
    action_stats_path: stats.json
    num_action_chunks: 8
    action_mode: policy
    action_fps: 10.0
    fps: 10
    num_inference_steps: 4
    action_view_point: wrist_view
    num_frames: 9
    size: 64x32
  sglang:
    seed: 42
    http_timeout_s: 60
    server:
      batching_max_size: 3
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_statistics(tmp_path).rename(tmp_path / "stats.json")
    path = tmp_path / "cosmos3.yaml"
    path.write_text(CONFIG)
    return path


def test_the_defaults_are_the_documented_recipe(tmp_path: Path) -> None:
    settings = settings_from(Cosmos3Options(action_stats=str(write_statistics(tmp_path))))
    assert settings.action_normalization == "quantile_rot"
    assert (settings.num_action_chunks, settings.num_frames, settings.action_horizon) == (
        16,
        17,
        16,
    )
    assert (settings.action_fps, settings.fps, settings.num_inference_steps) == (20.0, 20, 30)
    assert settings.width_height == (320, 192)
    assert (settings.domain_name, settings.action_view_point) == ("libero", "ego_view")
    assert (settings.seed, settings.http_timeout_s, settings.batching_max_size) == (1, 600.0, 1)


def test_a_configuration_in_rlinfs_form_is_read(config: Path) -> None:
    settings = settings_from(Cosmos3Options(config=str(config)))
    assert settings.action_stats == str(config.parent / "stats.json")
    assert (settings.num_action_chunks, settings.num_frames) == (8, 9)
    assert (settings.action_fps, settings.fps, settings.num_inference_steps) == (10.0, 10, 4)
    assert settings.width_height == (64, 32)
    assert (settings.seed, settings.http_timeout_s, settings.batching_max_size) == (42, 60.0, 3)
    assert settings.action_view_point == "wrist_view"


def test_an_option_wins_over_the_configuration_even_with_the_defaults_own_value(
    config: Path,
) -> None:
    settings = settings_from(
        Cosmos3Options(config=str(config), seed=1, num_inference_steps=30, num_frames=17)
    )
    assert (settings.seed, settings.num_inference_steps, settings.num_frames) == (1, 30, 17)
    assert settings.num_action_chunks == 8


def test_the_worker_reads_back_the_words_that_the_launcher_writes(config: Path) -> None:
    options = Cosmos3Options(config=str(config), seed=0, http_timeout_s=5.5, size="320x192")
    assert parse_options(Cosmos3Options, to_arguments(options), program="x") == options
    assert path_fields(Cosmos3Options) == ["config", "action_stats"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("rollout: {model: {precision: bf16}}", "precision"),
        ("rollout: {model: {raw_action_dim: 7}}", "raw_action_dim"),
        ("rollout: {model: {action_mode: inverse_dynamics}}", "action_mode"),
        ("rollout: {sglang: {http_timeout: 3}}", "http_timeout"),
        ("rollout: {sglang: {server: {batching_max_size: two}}}", "batching_max_size"),
        ("env: {train: {}}", "train"),
        ("defaults: [base]", "defaults"),
    ],
)
def test_a_configuration_with_unknown_words_is_refused(
    tmp_path: Path, text: str, named: str
) -> None:
    path = tmp_path / "cosmos3.yaml"
    path.write_text(text)
    with pytest.raises(BadOption, match=named) as refused:
        settings_from(Cosmos3Options(config=str(path)))
    assert "rollout.model" in str(refused.value)


def test_a_configuration_that_would_make_objects_makes_none(tmp_path: Path) -> None:
    path = tmp_path / "cosmos3.yaml"
    path.write_text("rollout: !!python/object/apply:os.system ['touch /tmp/never']")
    with pytest.raises(BadCheckpoint, match="not YAML"):
        settings_from(Cosmos3Options(config=str(path)))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"num_frames": 18}, "num_frames"),
        ({"num_frames": 1}, "num_frames"),
        ({"num_action_chunks": 17}, "num_action_chunks"),
        ({"num_action_chunks": 0}, "num_action_chunks"),
        ({"num_inference_steps": 0}, "num_inference_steps"),
        ({"size": "320"}, "size"),
        ({"size": "320x190"}, "size"),
        ({"size": "0x192"}, "size"),
        ({"http_timeout_s": 0.0}, "http_timeout_s"),
        ({"http_timeout_s": float("inf")}, "http_timeout_s"),
        ({"action_fps": float("nan")}, "action_fps"),
        ({"seed": -1}, "seed"),
        ({"batching_max_size": 0}, "batching_max_size"),
        ({"concurrent_requests": 0}, "concurrent_requests"),
        ({"domain_name": ""}, "domain_name"),
    ],
)
def test_impossible_settings_are_refused_by_name(
    tmp_path: Path, given: dict[str, object], named: str
) -> None:
    statistics = str(write_statistics(tmp_path))
    with pytest.raises(BadOption, match=named):
        settings_from(Cosmos3Options(action_stats=statistics, **given))


def test_missing_statistics_are_asked_for() -> None:
    with pytest.raises(BadCheckpoint, match="statistics") as refused:
        settings_from(Cosmos3Options())
    assert "--action-stats" in str(refused.value)


@pytest.mark.parametrize(
    "endpoint",
    [
        *("127.0.0.1:30000", "ftp://host:1", "http://", "http://host:1/path?x=1", ""),
        *("http://:30000", "http://host:99999", "http://host:0", "http://host:x", "http://[::1"),
    ],
)
def test_an_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    with pytest.raises(BadOption, match="sglang-endpoint|service"):
        check_endpoint(endpoint)


def test_an_endpoint_with_a_password_is_refused_without_repeating_it() -> None:
    with pytest.raises(BadOption, match="no address") as refused:
        check_endpoint("http://robot:secret@host:30000")
    assert "secret" not in str(refused.value)
    assert "host:30000" in str(refused.value)


def test_an_endpoint_may_have_a_path_and_a_slash() -> None:
    assert check_endpoint("http://host:30000/") == "http://host:30000"
    assert check_endpoint("https://host/robots/one") == "https://host/robots/one"


def look(options: Cosmos3Options, name: Path, platform: str) -> Inspection:
    named = msgspec.structs.replace(options, sglang_endpoint="http://127.0.0.1:30000")
    return inspect(named, name, platform)


def test_an_inspection_names_the_files_and_what_decides_the_actions(config: Path) -> None:
    found = look(Cosmos3Options(config=str(config)), NAME, "libero")
    assert {file.role: Path(file.path).name for file in found.files} == {
        "action statistics": "stats.json",
        "configuration": "cosmos3.yaml",
    }
    assert found.facts["served_model"] == "nvidia/cosmos3-test"
    assert (found.facts["execute_steps"], found.facts["action_horizon"]) == ("8", "8")
    assert found.facts["normalisation"] == "quantile_rot"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"global_raw": {}}, "q01"),
        ({"global_raw": BLOCK | {"q01": [0.0] * 7}}, "7 numbers"),
        ({"global_raw": BLOCK | {"q99": [float("nan")] * 10}}, "nan"),
        ({"global_raw": BLOCK | {"q01": [9.0] * 10}}, "above"),
        ({"global_raw": BLOCK | {"q01": "low"}}, "q01"),
        ({"global_raw": [1, 2]}, "list"),
    ],
)
def test_statistics_that_cannot_be_used_are_refused(
    tmp_path: Path, changes: dict[str, object], named: str
) -> None:
    statistics = write_statistics(tmp_path, **changes)
    with pytest.raises(BadCheckpoint, match=named):
        look(Cosmos3Options(action_stats=str(statistics)), NAME, "libero")


def test_statistics_without_the_block_of_their_normalisation_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "statistics.json"
    path.write_text(json.dumps({"global": BLOCK}))
    with pytest.raises(BadCheckpoint, match="global_raw"):
        look(Cosmos3Options(action_stats=str(path)), NAME, "libero")
    quantile = Cosmos3Options(action_stats=str(path), action_normalization="quantile")
    assert look(quantile, NAME, "libero").files


def test_a_block_may_stand_alone(tmp_path: Path) -> None:
    path = tmp_path / "statistics.json"
    path.write_text(json.dumps(BLOCK))
    assert look(Cosmos3Options(action_stats=str(path)), NAME, "libero-pro").files


def test_a_missing_file_says_where_it_was_named(config: Path) -> None:
    (config.parent / "stats.json").unlink()
    with pytest.raises(BadCheckpoint, match=r"stats\.json") as refused:
        look(Cosmos3Options(config=str(config)), NAME, "libero")
    assert "--action-stats" in str(refused.value)


def test_another_platform_is_refused(tmp_path: Path) -> None:
    statistics = str(write_statistics(tmp_path))
    with pytest.raises(BadOption, match="robotwin"):
        look(Cosmos3Options(action_stats=statistics), NAME, "robotwin")


def test_a_service_that_is_not_named_is_noticed_before_anything_starts(tmp_path: Path) -> None:
    statistics = str(write_statistics(tmp_path))
    with pytest.raises(BadOption, match="none is named"):
        inspect(Cosmos3Options(action_stats=statistics), NAME, "libero")


@pytest.mark.parametrize("wait", ["nan", "inf", "-1", "86401"])
def test_a_wait_without_an_end_is_refused(wait: str) -> None:
    with pytest.raises(BadOption, match="service_wait_s"):
        parse_options(Cosmos3Options, [f"--service-wait-s={wait}"], program="cosmos3")


def test_the_declaration_says_that_there_is_a_service_and_no_file() -> None:
    assert BACKEND.checkpoint_is == "name"
    assert BACKEND.needs_network
    assert not BACKEND.needs_gpu
    assert BACKEND.platforms == ("libero", "libero-pro")
