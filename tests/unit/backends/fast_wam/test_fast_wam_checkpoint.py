# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fast_wam_files import (
    TEXT_ENCODER,
    TOKENIZER,
    VAE,
    checkpoint,
    converted,
    safetensors_file,
    torch_file,
)
from fast_wam_parts import statistics

from rpent_box.backends.fast_wam import BACKEND
from rpent_box.backends.fast_wam.checkpoint import CONVERTED
from rpent_box.backends.fast_wam.options import FastWamOptions
from rpent_box.contracts.checkpoint import Inspection
from rpent_box.errors import BadCheckpoint, BadOption

STATISTICS = "libero_uncond_dataset_stats.json"


def look(path: Path, platform: str = "libero", **options: Any) -> Inspection:
    assert BACKEND.inspect is not None
    return BACKEND.inspect(FastWamOptions(**options), path, platform)


def roles(found: Inspection) -> dict[str, str]:
    return {file.role: file.path for file in found.files}


@pytest.mark.parametrize("platform", BACKEND.platforms)
def test_a_whole_folder_is_found(tmp_path: Path, platform: str) -> None:
    found = look(checkpoint(tmp_path, platform), platform)
    assert set(roles(found)) == {"weights", "statistics", "VAE", "text encoder", "tokenizer"}
    assert all(Path(path).is_file() for path in roles(found).values())
    assert found.facts["action_horizon"] == "32"
    assert found.facts["execute_steps"] == ("24" if platform == "robotwin" else "10")


def test_the_weights_may_be_given_as_a_file(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    assert roles(look(folder / "libero_uncond.pt")) == roles(look(folder))


def test_of_two_models_in_one_folder_the_platforms_own_is_taken(tmp_path: Path) -> None:
    checkpoint(tmp_path / "both", "libero")
    checkpoint(tmp_path / "other", "robotwin")
    for name in ("robotwin_uncond.pt", "robotwin_uncond_dataset_stats.json"):
        (tmp_path / "other" / name).rename(tmp_path / "both" / name)
    for platform in ("libero", "robotwin"):
        found = roles(look(tmp_path / "both", platform))
        assert Path(found["weights"]).name == f"{platform}_uncond.pt"
        assert Path(found["statistics"]).name == f"{platform}_uncond_dataset_stats.json"


def test_several_weights_of_one_platform_are_refused(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    torch_file(folder / "libero_other.pt", {"mot": {}, "proprio_encoder": {}})
    with pytest.raises(BadCheckpoint, match=r"libero_other\.pt, libero_uncond\.pt") as caught:
        look(folder)
    assert "--checkpoint" in caught.value.hint


def test_converted_components_are_taken_where_they_are(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    converted(folder)
    assert roles(look(folder))["VAE"].endswith("Wan2.2_VAE.safetensors")
    (folder / CONVERTED / "models_t5_umt5-xxl-enc-bf16.safetensors").unlink()
    with pytest.raises(BadCheckpoint, match="text encoder"):
        look(folder)


def test_components_may_be_elsewhere(tmp_path: Path) -> None:
    checkpoint(tmp_path / "components")
    folder = tmp_path / "weights"
    folder.mkdir()
    for name in ("libero_uncond.pt", STATISTICS):
        (tmp_path / "components" / name).rename(folder / name)
    with pytest.raises(BadCheckpoint, match="VAE") as caught:
        look(folder)
    assert "--model-base-path" in caught.value.hint
    found = roles(look(folder, model_base_path=str(tmp_path / "components")))
    assert found["VAE"] == str(tmp_path / "components" / VAE)


def test_statistics_may_be_elsewhere(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "a")
    moved = tmp_path / "statistics.json"
    (folder / STATISTICS).rename(moved)
    with pytest.raises(BadCheckpoint, match="statistics") as caught:
        look(folder)
    assert "--dataset-stats" in caught.value.hint
    assert roles(look(folder, dataset_stats=str(moved)))["statistics"] == str(moved)


@pytest.mark.parametrize(
    ("missing", "role"),
    [
        ("libero_uncond.pt", "weights"),
        (STATISTICS, "statistics"),
        (VAE, "VAE"),
        (TEXT_ENCODER, "text encoder"),
        (TOKENIZER, "tokenizer"),
    ],
)
def test_a_missing_file_is_named(tmp_path: Path, missing: str, role: str) -> None:
    (checkpoint(tmp_path) / missing).unlink()
    with pytest.raises(BadCheckpoint, match=role):
        look(tmp_path)


@pytest.mark.parametrize("cut", ["libero_uncond.pt", VAE, TEXT_ENCODER])
def test_a_cut_file_is_refused(tmp_path: Path, cut: str) -> None:
    path = checkpoint(tmp_path) / cut
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(BadCheckpoint, match="cut or damaged"):
        look(tmp_path)


def test_a_cut_tokenizer_is_refused(tmp_path: Path) -> None:
    (checkpoint(tmp_path) / TOKENIZER).write_text('{"version": "1.0", "trunc')
    with pytest.raises(BadCheckpoint, match=r"the tokenizer .*tokenizer\.json is not JSON"):
        look(tmp_path)


def test_the_tokenizers_settings_are_among_the_files_that_decide(tmp_path: Path) -> None:
    settings = checkpoint(tmp_path) / Path(TOKENIZER).with_name("tokenizer_config.json")
    settings.write_text('{"padding_side": "right"}')
    assert roles(look(tmp_path))["tokenizer settings"] == str(settings)
    assert roles(look(tmp_path))["tokenizer"] == str(tmp_path / TOKENIZER)


def test_a_cut_converted_file_is_refused(tmp_path: Path) -> None:
    converted(checkpoint(tmp_path))
    path = tmp_path / CONVERTED / "Wan2.2_VAE.safetensors"
    safetensors_file(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BadCheckpoint, match="cut or damaged"):
        look(tmp_path)


@pytest.mark.parametrize("key", ["mot", "proprio_encoder"])
def test_weights_without_what_fastwam_would_leave_at_random_are_refused(
    tmp_path: Path, key: str
) -> None:
    content = {"mot": {"a": 0}, "proprio_encoder": {"weight": 0}}
    del content[key]
    torch_file(checkpoint(tmp_path) / "libero_uncond.pt", content)
    with pytest.raises(BadCheckpoint, match=f"has no {key}"):
        look(tmp_path)


def test_looking_executes_nothing_of_a_pickle(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (open, (str(tmp_path / "sprung"), "w"))

    content = {"mot": {"a": 0}, "proprio_encoder": {}, "step": Trap()}
    torch_file(checkpoint(tmp_path) / "libero_uncond.pt", content)
    look(tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_statistics_of_the_other_robot_are_refused(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    (folder / STATISTICS).write_text(json.dumps(statistics("robotwin")))
    with pytest.raises(BadCheckpoint, match="RoboTwin"):
        look(folder)


@pytest.mark.parametrize(
    ("part", "name", "value", "said"),
    [
        ("state", "global_min", [0.0] * 7, "7 numbers"),
        ("action", "global_max", [float("nan")] * 7, "nan"),
        ("action", "global_max", [-9.0] * 7, "above"),
        ("action", "global_min", "low", "not a list of numbers"),
        ("state", "global_max", None, "global_max"),
    ],
)
def test_statistics_that_cannot_normalise_are_refused(
    tmp_path: Path, part: str, name: str, value: Any, said: str
) -> None:
    values = statistics()
    if value is None:
        del values[part]["default"][name]
    else:
        values[part]["default"][name] = value
    (checkpoint(tmp_path) / STATISTICS).write_text(json.dumps(values))
    with pytest.raises(BadCheckpoint, match=said):
        look(tmp_path)


def test_statistics_that_are_not_merged_into_one_key_are_refused(tmp_path: Path) -> None:
    values = statistics()
    values["state"] = {"arm": values["state"]["default"]}
    (checkpoint(tmp_path) / STATISTICS).write_text(json.dumps(values))
    with pytest.raises(BadCheckpoint, match=r"state\.default.*arm"):
        look(tmp_path)


def test_the_checkpoint_of_the_other_platform_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="RoboTwin"):
        look(checkpoint(tmp_path, "robotwin"), "libero")


def test_a_configuration_that_contradicts_itself_is_refused_here(tmp_path: Path) -> None:
    config = tmp_path / "worker.yaml"
    config.write_text("num_action_chunks: 40\n")
    with pytest.raises(BadOption, match="40 steps of an action horizon of 32"):
        look(checkpoint(tmp_path / "a"), config=str(config))


def test_the_configuration_is_among_the_files_that_decide(tmp_path: Path) -> None:
    config = tmp_path / "worker.yaml"
    config.write_text("seed: 3\n")
    found = look(checkpoint(tmp_path / "a"), config=str(config))
    assert roles(found)["configuration"] == str(config)


def test_looking_imports_no_framework(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    program = (
        "import sys; from pathlib import Path;"
        "from rpent_box.backends.fast_wam import BACKEND;"
        f"BACKEND.inspect(BACKEND.options(), Path({str(tmp_path)!r}), 'libero');"
        "print([name for name in ('torch', 'fastwam', 'hydra', 'PIL', 'transformers')"
        " if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
