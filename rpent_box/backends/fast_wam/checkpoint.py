# SPDX-License-Identifier: Apache-2.0
"""What FastWAM will read, found and looked at before anything of it is imported."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from rpent_box.backends.checkpoint_files import (
    find_file,
    find_optional_file,
    read_json,
    require_file,
    require_folder,
)
from rpent_box.backends.fast_wam.calibration import Calibration, read_calibration
from rpent_box.backends.fast_wam.layout import Layout, known_layout, layout_of
from rpent_box.backends.fast_wam.options import FastWamOptions
from rpent_box.backends.fast_wam.recipe import Recipe, read_recipe
from rpent_box.backends.tensor_files import (
    read_safetensors_header,
    read_torch_file,
    require_names,
)
from rpent_box.contracts.checkpoint import ExpectedFile, Inspection

WEIGHTS_KEYS = ("mot", "proprio_encoder")
CONVERTED = "DiffSynth-Studio/Wan-Series-Converted-Safetensors"
"""Where FastWAM looks first, unless told not to (`redirect_common_files`)."""
MODEL_ID = "Wan-AI/Wan2.2-TI2V-5B"
TOKENIZER_ID = "Wan-AI/Wan2.1-T2V-1.3B"


class FoundFiles(Struct, frozen=True, kw_only=True):
    """Every file that loading reads."""

    weights: ExpectedFile
    statistics: ExpectedFile
    vae: ExpectedFile
    text_encoder: ExpectedFile
    tokenizer: tuple[ExpectedFile, ...]
    """Its vocabulary, then its settings: which sign pads, where a sentence ends."""
    base: str
    """The folder that the last three are under: FastWAM's DIFFSYNTH_MODEL_BASE_PATH."""
    converted: bool
    """VAE and text encoder are safetensors files, else the original PyTorch ones."""

    def all(self) -> tuple[ExpectedFile, ...]:
        return (self.weights, self.statistics, self.vae, self.text_encoder, *self.tokenizer)


def inspect(options: FastWamOptions, path: Path, platform: str) -> Inspection:
    """Return what is there for `platform`; reads headers and statistics only.

    Raises `BadCheckpoint` and `BadOption` for what could not work.
    """
    recipe = read_recipe(options, platform)
    files = find_model_files(options, path, recipe)
    layout = stated_layout(recipe)
    calibrate(files, layout, recipe)
    configuration = (require_file(options.config, role="configuration"),) if options.config else ()
    return Inspection(
        files=(*files.all(), *configuration),
        facts={
            "action_horizon": str(recipe.action_horizon),
            "execute_steps": str(recipe.execute_steps),
            "denoising_steps": str(recipe.inference.num_inference_steps),
            "normalisation": f"state {layout.state_mode}, action {layout.action_mode}",
            "precision": recipe.precision,
            "gripper": "binarised" if recipe.binarize_gripper else "as predicted",
            "integration": options.integration,
            "configuration": recipe.source,
        },
    )


def find_model_files(options: FastWamOptions, path: Path, recipe: Recipe) -> FoundFiles:
    """Return the files for `recipe`, whole as far as their headers tell. Raises `BadCheckpoint`."""
    weights = _find_weights(path, recipe.platform)
    beside = Path(weights.path).parent
    base = Path(options.model_base_path or beside).absolute()
    model_id = MODEL_ID if recipe.model is None else recipe.model.model_id
    tokenizer = TOKENIZER_ID if recipe.model is None else recipe.model.tokenizer_model_id
    converted, vae, text_encoder = _find_components(base, model_id)
    found = FoundFiles(
        weights=weights,
        statistics=_find_statistics(options, Path(weights.path)),
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=_find_tokenizer(base / tokenizer / "google" / "umt5-xxl", _base_hint(base)),
        base=str(base),
        converted=converted,
    )
    names = read_torch_file(weights.path).names
    require_names(names, WEIGHTS_KEYS, path=weights.path, role="weights")
    for component in (vae, text_encoder):
        read = read_safetensors_header if converted else read_torch_file
        read(component.path, role=component.role)
    return found


def stated_layout(recipe: Recipe) -> Layout:
    """Return the layout that the YAML states, else the one of FastWAM's own configuration.

    Raises `BadOption` for one of another platform.
    """
    if recipe.processor is None:
        return known_layout(recipe.platform)
    return layout_of(
        recipe.processor,
        recipe.platform,
        video_size=known_layout(recipe.platform).video_size,
        concat=known_layout(recipe.platform).concat,
        source=recipe.source,
    )


def calibrate(files: FoundFiles, layout: Layout, recipe: Recipe) -> Calibration:
    """Return the calibration of the found statistics. Raises `BadCheckpoint`."""
    statistics = read_json(files.statistics.path, role="statistics")
    return read_calibration(statistics, layout, recipe, role=f"statistics {files.statistics.path}")


def _find_weights(path: Path, platform: str) -> ExpectedFile:
    if not path.is_dir():
        return require_file(path, role="weights")
    word = "robotwin" if platform == "robotwin" else "libero"
    return find_file(
        path,
        f"*{word}*.pt",
        "*.pt",
        role="weights",
        hint=f"Give the file of {platform}: --checkpoint {path}/NAME.pt",
    )


def _find_statistics(options: FastWamOptions, weights: Path) -> ExpectedFile:
    if options.dataset_stats:
        return require_file(options.dataset_stats, role="statistics")
    return find_file(
        weights.parent,
        f"{weights.stem}_dataset_stats.json",
        "dataset_stats.json",
        role="statistics",
        hint="Where they are elsewhere: --dataset-stats FILE",
    )


def _find_components(base: Path, model_id: str) -> tuple[bool, ExpectedFile, ExpectedFile]:
    """Return whether they are converted, the VAE and the text encoder: one layout or the other."""
    require_folder(base, role="VAE and text encoder", hint=_base_hint(base))
    vae = find_optional_file(base, f"{CONVERTED}/Wan2.2_VAE.safetensors", role="VAE")
    if vae is not None:
        text = f"{CONVERTED}/models_t5_umt5-xxl-enc-bf16.safetensors"
        return True, vae, find_file(base, text, role="text encoder", hint=_base_hint(base))
    vae = find_file(base, f"{model_id}/Wan2.2_VAE.pth", role="VAE", hint=_base_hint(base))
    text = f"{model_id}/models_t5_umt5-xxl-enc-bf16.pth"
    return False, vae, find_file(base, text, role="text encoder", hint=_base_hint(base))


def _find_tokenizer(folder: Path, hint: str) -> tuple[ExpectedFile, ...]:
    require_folder(folder, role="tokenizer", hint=hint)
    first = find_file(folder, "tokenizer.json", "spiece.model", role="tokenizer")
    settings = [
        require_file(path, role="tokenizer settings")
        for path in sorted(folder.glob("*.json"))
        if str(path.absolute()) != first.path
    ]
    found = (first, *settings)
    for file in found:
        if file.path.endswith(".json"):
            read_json(file.path, role=file.role)
    return found


def _base_hint(base: Path) -> str:
    return (
        f"Put them under {base}, or name their folder: --model-base-path DIR. "
        "images/fast-wam/README.md lists them."
    )
