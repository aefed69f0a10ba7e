# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import pickle
import shutil
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pytest
from cosmos_policy_files import (
    INSTRUCTIONS,
    make_checkpoint,
    make_hf_home,
    make_text_encoder,
    write_statistics,
    write_torch_zip,
)
from msgspec.structs import replace

from rpent_box.backends.cosmos_policy import BACKEND
from rpent_box.backends.cosmos_policy.checkpoint import (
    EMBEDDINGS,
    HF_HOME,
    PICKLED_EMBEDDINGS,
    STATISTICS,
    WEIGHTS,
    read_checkpoint,
    read_statistics,
)
from rpent_box.backends.cosmos_policy.hf_cache import (
    BASE_MODEL,
    NEVER_READ,
    TOKENIZER,
    find_snapshot,
    find_tokenizer,
    has_text_encoder,
    make_cache,
)
from rpent_box.backends.cosmos_policy.options import CosmosPolicyOptions
from rpent_box.errors import BadCheckpoint, BadOption

OPTIONS = CosmosPolicyOptions()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_checkpoint(tmp_path / "cosmos-libero")


def inspect(path: Path, options: CosmosPolicyOptions = OPTIONS, platform: str = "libero"):
    assert BACKEND.inspect is not None
    return BACKEND.inspect(options, path, platform)


@pytest.mark.parametrize("platform", BACKEND.platforms)
def test_the_three_files_are_found(folder: Path, platform: str) -> None:
    found = inspect(folder, platform=platform)
    names = {file.role: Path(file.path).name for file in found.files}
    assert names == {
        "weights": WEIGHTS,
        "statistics": STATISTICS,
        "text embeddings": EMBEDDINGS,
        "tokenizer": "b10b",
    }


def test_what_decides_the_actions_is_told(folder: Path) -> None:
    facts = inspect(folder, replace(OPTIONS, execute_steps=8, denoising_steps=10)).facts
    assert facts["action_horizon"] == "16"
    assert facts["execute_steps"] == "8"
    assert facts["denoising_steps"] == "10"
    assert facts["cached_instructions"] == str(len(INSTRUCTIONS))


def test_the_weights_may_be_named_themselves(folder: Path) -> None:
    other = folder / "fine_tuned.pt"
    write_torch_zip(other, {"net.x_embedder.weight": 1})
    assert read_checkpoint(OPTIONS, other).weights == other


def test_links_keep_the_name_that_the_loader_goes_by(folder: Path, tmp_path: Path) -> None:
    stored = tmp_path / "blob"
    (folder / WEIGHTS).rename(stored)
    (folder / WEIGHTS).symlink_to(stored)
    assert read_checkpoint(OPTIONS, folder).weights == folder / WEIGHTS
    paths = {file.role: file.path for file in inspect(folder).files}
    assert paths["weights"] == str(stored)


@pytest.mark.parametrize("name", [WEIGHTS, STATISTICS, EMBEDDINGS])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(BadCheckpoint, match=name.split(".")[0]):
        inspect(folder)


@pytest.mark.parametrize("name", [WEIGHTS, EMBEDDINGS])
def test_a_cut_file_is_refused(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadCheckpoint):
        inspect(folder)


def test_a_pickle_is_refused_with_the_command_that_converts_it(folder: Path) -> None:
    (folder / EMBEDDINGS).rename(folder / PICKLED_EMBEDDINGS)
    with pytest.raises(BadCheckpoint, match="a worker never opens") as caught:
        inspect(folder)
    assert caught.value.hint.endswith(
        "python -m rpent_box.backends.cosmos_policy.convert_embeddings "
        f"{folder / PICKLED_EMBEDDINGS} {folder / EMBEDDINGS}"
    )


def test_a_pickle_that_an_option_names_is_refused_too(folder: Path, tmp_path: Path) -> None:
    named = tmp_path / "e.pkl"
    named.write_bytes(b"\x80\x04}.")
    with pytest.raises(BadCheckpoint, match="a worker never opens"):
        inspect(folder, replace(OPTIONS, text_embeddings=str(named)))


def test_options_name_files_elsewhere(folder: Path, tmp_path: Path) -> None:
    for name in (STATISTICS, EMBEDDINGS):
        (folder / name).rename(tmp_path / name)
    options = replace(
        OPTIONS,
        dataset_stats=str(tmp_path / STATISTICS),
        text_embeddings=str(tmp_path / EMBEDDINGS),
    )
    paths = {file.role: file.path for file in inspect(folder, options).files}
    assert paths["statistics"] == str(tmp_path / STATISTICS)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"proprio_min": [0.0] * 9, "proprio_max": [1.0] * 8 + [0.0]}, "divide by zero"),
        ({"actions_min": [1.0] * 7, "actions_max": [2.0] * 6 + [1.0]}, "never move along it"),
        ({"actions_min": [-1.0] * 14, "actions_max": [1.0] * 14}, "ALOHA"),
        ({"proprio_min": [-1.0] * 8}, "8 numbers"),
        ({"proprio_max": [float("nan")] * 9}, "nan"),
        ({"actions_max": [-5.0] * 7}, "above"),
        ({"actions_min": "none"}, "list of numbers"),
    ],
)
def test_statistics_that_cannot_be_scaled_with_are_refused(
    tmp_path: Path, changed: dict[str, object], told: str
) -> None:
    write_statistics(tmp_path / "s.json", **changed)
    with pytest.raises(BadCheckpoint, match=told):
        read_statistics(tmp_path / "s.json")


def test_statistics_without_proprio_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"actions_min": [0,0,0,0,0,0,0]}')
    with pytest.raises(BadCheckpoint, match="actions_max"):
        read_statistics(tmp_path / "s.json")


def test_another_platform_is_refused(folder: Path) -> None:
    with pytest.raises(BadOption, match="robotwin"):
        inspect(folder, platform="robotwin")


# --- weights


class Runs:
    """Writes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def __reduce__(self):
        return (Path.touch, (self._target,))


def test_looking_at_weights_runs_nothing_of_them(folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    write_torch_zip(folder / WEIGHTS, {"net.weight": Runs(mark)})
    write_torch_zip(Path(find_tokenizer(folder / HF_HOME).path).resolve(), {"a": Runs(mark)})
    inspect(folder)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["blocks.0.weight", "net_ema.weight", "model.net.weight"])
def test_weights_that_would_fill_nothing_are_refused(folder: Path, name: str) -> None:
    write_torch_zip(folder / WEIGHTS, {name: 1})
    with pytest.raises(BadCheckpoint, match=rf"begins with net\., .*theirs are: {name}"):
        inspect(folder)


def test_weights_of_another_suffix_are_refused(folder: Path, tmp_path: Path) -> None:
    other = folder / "fine_tuned.pth"
    (folder / WEIGHTS).rename(other)
    with pytest.raises(BadCheckpoint, match=r"no \.pt file"):
        inspect(other)


def test_plain_weights_with_ordered_names_are_taken(folder: Path) -> None:
    write_torch_zip(folder / WEIGHTS, OrderedDict({"net.weight": 1}))
    assert read_checkpoint(OPTIONS, folder).weights.name == WEIGHTS


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_weights_of_any_kind_of_pickle_are_looked_at(folder: Path, protocol: int) -> None:
    raw = pickle.dumps({"net.weight": io.BytesIO(b"state")}, protocol)
    write_torch_zip(folder / WEIGHTS, None, raw=raw)
    assert read_checkpoint(OPTIONS, folder).weights.name == WEIGHTS


# --- the Hugging Face cache


def test_the_tokenizer_is_found_in_the_cache_that_an_option_names(
    folder: Path, tmp_path: Path
) -> None:
    home = make_hf_home(tmp_path / "hf")
    shutil.rmtree(folder / HF_HOME)
    files = inspect(folder, replace(OPTIONS, hf_home=str(home))).files
    assert files[-1].role == "tokenizer"
    assert Path(files[-1].path).is_relative_to(home)


def test_a_tokenizer_that_is_missing_is_told_with_the_command(folder: Path, tmp_path: Path) -> None:
    home = make_hf_home(tmp_path / "hf", without=TOKENIZER)
    with pytest.raises(BadCheckpoint, match="tokenizer.pth") as caught:
        inspect(folder, replace(OPTIONS, hf_home=str(home)))
    assert f"HF_HOME={home} hf download {BASE_MODEL} {TOKENIZER}" in caught.value.hint


def test_a_folder_that_is_no_cache_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="no Hugging Face cache"):
        inspect(folder, replace(OPTIONS, hf_home=str(tmp_path)))


def test_without_the_option_the_cache_lies_beside_the_weights(folder: Path) -> None:
    shutil.rmtree(folder / HF_HOME)
    with pytest.raises(BadCheckpoint, match=str(folder / HF_HOME)):
        inspect(folder)


def test_the_model_is_given_a_cache_of_links(folder: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    make_cache(folder / HF_HOME, given)
    real, link = find_tokenizer(folder / HF_HOME), find_tokenizer(given)
    assert Path(link.path).samefile(real.path)
    for repository, name in NEVER_READ.items():
        snapshot = find_snapshot(given, repository)
        assert snapshot is not None
        assert (snapshot / name).stat().st_size == 0


def test_a_text_encoder_is_linked_into_that_cache(folder: Path, tmp_path: Path) -> None:
    make_text_encoder(folder / HF_HOME)
    make_cache(folder / HF_HOME, tmp_path / "given")
    assert has_text_encoder(tmp_path / "given")


def test_a_tokenizer_that_torch_did_not_save_is_refused(folder: Path) -> None:
    Path(find_tokenizer(folder / HF_HOME).path).resolve().write_bytes(b"weights")
    with pytest.raises(BadCheckpoint, match=r"tokenizer .* was not written by torch\.save"):
        inspect(folder)


def test_a_reference_does_not_lead_out_of_the_cache(tmp_path: Path) -> None:
    home = make_hf_home(tmp_path / "hf")
    place = home / "hub" / "models--nvidia--Cosmos-Predict2-2B-Video2World"
    (place / "refs" / "main").write_text("../../..")
    assert find_snapshot(home, "nvidia/Cosmos-Predict2-2B-Video2World") is None


@pytest.mark.parametrize("missing", ["config.json", "spiece.model", "pytorch_model.bin"])
def test_a_text_encoder_needs_words_and_weights(tmp_path: Path, missing: str) -> None:
    assert not has_text_encoder(tmp_path)
    snapshot = make_text_encoder(tmp_path)
    assert has_text_encoder(tmp_path)
    (snapshot / missing).unlink()
    assert not has_text_encoder(tmp_path)


def test_inspecting_needs_no_framework(folder: Path) -> None:
    script = (
        "import sys\n"
        "for name in ('torch', 'huggingface_hub', 'safetensors'): sys.modules[name] = None\n"
        "from pathlib import Path\n"
        "from rpent_box.backends.cosmos_policy import BACKEND\n"
        f"print(len(BACKEND.inspect(BACKEND.options(), Path({str(folder)!r}), 'libero').files))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
