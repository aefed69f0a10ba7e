# SPDX-License-Identifier: Apache-2.0
"""The worker's YAML: what it may say, and what holds where it says nothing.

LIBERO's is the model section of an RLinf configuration; RoboTwin's names FastWAM's own resolved
`model` and `processor`. Checkpoint and statistics are never in it: they are the worker's options.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from rpent_box.backends.checkpoint_files import read_yaml
from rpent_box.backends.fast_wam.layout import Processor
from rpent_box.backends.fast_wam.model_section import ModelSection, check_model_section
from rpent_box.backends.fast_wam.options import FastWamOptions
from rpent_box.errors import BadOption

Precision: TypeAlias = Literal["bf16", "fp16", "fp32"]
Steps: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
NoiseSeed: TypeAlias = Annotated[int, Meta(ge=0, lt=2**31)]
ConfigT = TypeVar("ConfigT", bound=Struct)

LIBERO_PLATFORMS = ("libero", "libero-pro")
ENCODED = ("prompt", "input_image", "proprio", "context", "context_mask", "action_horizon")
"""What `FastWAM.infer_action` takes that is never an option."""


class TextEncoderSizes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sizes of a text encoder that is not the released umT5-XXL."""

    vocab: int
    dim: int
    dim_attn: int
    dim_ffn: int
    num_heads: int
    num_layers: int
    num_buckets: int = 32
    shared_pos: bool = False


class VaeSizes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sizes of a VAE that is not the released one of Wan2.2."""

    dim: int
    z_dim: int = 48


class Components(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes of component files that FastWAM does not know. None: the released ones."""

    text_encoder: TextEncoderSizes | None = None
    vae: VaeSizes | None = None


class Composition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which of FastWAM's own configurations to compose."""

    config_dir: str = ""
    """Empty: the installed FastWAM's."""
    config_name: str = ""
    """Empty: its evaluation configuration of the platform."""
    overrides: tuple[str, ...] = ()
    """As Hydra reads them, e.g. `model.video_dit_config.num_layers=30`."""
    components: Components = Components()


class InferenceOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is handed to `FastWAM.infer_action` besides the observation and the horizon."""

    num_inference_steps: Steps = 10
    sigma_shift: float | None = None
    """None: the shift that the model was configured with."""
    text_cfg_scale: float = 1.0
    """FastWAM takes it and does not use it."""
    negative_prompt: str = ""
    """As above."""
    rand_device: Literal["cpu"] = "cpu"
    """Noise drawn on a GPU would differ from one card to the next."""
    tiled: bool = False
    """FastWAM's VAE cannot encode in tiles; true is refused."""
    seed: NoiseSeed = 1


class LiberoConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The YAML of a LIBERO worker."""

    action_horizon: Steps = 32
    num_action_chunks: Steps = 10
    """Steps executed before the model is asked again."""
    num_inference_steps: Steps = 20
    binarize_gripper: bool = True
    seed: NoiseSeed | None = 1
    sigma_shift: float | None = None
    text_cfg_scale: float = 1.0
    negative_prompt: str = ""
    rand_device: Literal["cpu"] = "cpu"
    tiled: bool = False
    precision: Precision = "bf16"
    model_type: Literal["fastwam"] = "fastwam"
    action_dim: Literal[7] = 7
    is_lora: bool = False
    fastwam: Composition = Composition()


class RoboTwinConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The YAML of a RoboTwin worker."""

    model: ModelSection | None = None
    """FastWAM's resolved `model`; None: composed, as for LIBERO."""
    processor: Processor | None = None
    """FastWAM's resolved `data.train.processor`; given exactly when `model` is."""
    action_horizon: Steps = 32
    execute_steps: Steps = 24
    video_size: tuple[int, int] = (384, 320)
    concat: Literal["robotwin"] = "robotwin"
    inference_options: InferenceOptions = InferenceOptions()
    precision: Precision = "bf16"
    binarize_gripper: bool = False
    """LIBERO's; true is refused."""
    fastwam: Composition = Composition()


class Recipe(Struct, frozen=True, kw_only=True):
    """What a worker does, whichever platform and whether or not a YAML was given."""

    platform: str
    source: str
    """The YAML's path, or `built in`."""
    action_horizon: int
    execute_steps: int
    seed: int
    binarize_gripper: bool
    precision: Precision
    inference: InferenceOptions
    composition: Composition
    model: ModelSection | None = None
    processor: Processor | None = None
    given: dict[str, Any] = {}
    """The YAML as it stands: what RLinf is handed."""

    @property
    def is_libero(self) -> bool:
        return self.platform in LIBERO_PLATFORMS


def read_recipe(options: FastWamOptions, platform: str) -> Recipe:
    """Return the recipe that the options give for `platform`.

    Raises `BadOption` for a key that is unknown or cannot be used, `BadCheckpoint` for a file that
    is no YAML.
    """
    given = read_yaml(options.config, role="configuration") if options.config else {}
    source = options.config or "built in"
    libero = platform in LIBERO_PLATFORMS
    recipe = _libero(given, source, platform) if libero else _robotwin(given, source, platform)
    if options.integration == "rlinf" and not libero:
        raise BadOption(
            f"RLinf's policy has neither {platform}'s cameras nor its control",
            hint="Leave --integration at official, which FastWAM's own code serves.",
        )
    if options.seed is not None:
        recipe = msgspec.structs.replace(recipe, seed=_seed(options.seed))
    _check(recipe)
    return recipe


def _libero(given: dict[str, Any], source: str, platform: str) -> Recipe:
    config = _convert(given, LiberoConfig, source)
    if config.is_lora:
        raise BadOption(f"{source} asks for LoRA weights, which FastWAM has none of")
    return Recipe(
        platform=platform,
        source=source,
        action_horizon=config.action_horizon,
        execute_steps=config.num_action_chunks,
        seed=1 if config.seed is None else config.seed,
        binarize_gripper=config.binarize_gripper,
        precision=config.precision,
        inference=InferenceOptions(
            num_inference_steps=config.num_inference_steps,
            sigma_shift=config.sigma_shift,
            text_cfg_scale=config.text_cfg_scale,
            negative_prompt=config.negative_prompt,
            rand_device=config.rand_device,
            tiled=config.tiled,
        ),
        composition=_named(config.fastwam, "sim_libero"),
        given=given,
    )


def _robotwin(given: dict[str, Any], source: str, platform: str) -> Recipe:
    _refuse_encoded(given, source)
    config = _convert(given, RoboTwinConfig, source)
    if config.binarize_gripper:
        raise BadOption(
            f"{source} binarises the gripper, which is LIBERO's; RoboTwin's opens by degrees",
            hint="Set binarize_gripper to false, or leave it out.",
        )
    if (config.model is None) != (config.processor is None):
        there, missing = ("model", "processor") if config.model else ("processor", "model")
        raise BadOption(
            f"{source} has a {there} and no {missing}; the two belong together",
            hint="Give both, resolved, or neither: then FastWAM's own sim_robotwin is composed.",
        )
    if config.model is not None:
        check_model_section(config.model, platform, source)
    if config.video_size != (384, 320):
        raise BadOption(
            f"{source} has video_size {list(config.video_size)}; three RoboTwin cameras make "
            "[384, 320]: the head at 256x320 above two wrists at 128x160"
        )
    return Recipe(
        platform=platform,
        source=source,
        action_horizon=config.action_horizon,
        execute_steps=config.execute_steps,
        seed=config.inference_options.seed,
        binarize_gripper=False,
        precision=config.precision,
        inference=config.inference_options,
        composition=_named(config.fastwam, "sim_robotwin"),
        model=config.model,
        processor=config.processor,
    )


def _check(recipe: Recipe) -> None:
    if recipe.execute_steps > recipe.action_horizon:
        raise BadOption(
            f"{recipe.source} executes {recipe.execute_steps} steps of an action horizon of "
            f"{recipe.action_horizon}",
            hint="Execute at most as many steps as are predicted.",
        )
    if recipe.inference.tiled:
        raise BadOption(
            f"{recipe.source} asks for tiled encoding, which FastWAM's VAE does not have",
            hint="Set tiled to false, or leave it out.",
        )


def _convert(given: dict[str, Any], wanted: type[ConfigT], source: str) -> ConfigT:
    try:
        return msgspec.convert(given, wanted)
    except msgspec.ValidationError as error:
        known = ", ".join(field.name for field in msgspec.structs.fields(wanted))
        raise BadOption(
            f"the configuration {source} cannot be used: {error}", hint=f"It may hold: {known}"
        ) from error


def _refuse_encoded(given: dict[str, Any], source: str) -> None:
    options = given.get("inference_options")
    for name in ENCODED:
        if isinstance(options, dict) and name in options:
            raise BadOption(
                f"inference_options in {source} may not set {name}: it comes from the observation "
                "or from action_horizon"
            )


def _named(composition: Composition, name: str) -> Composition:
    if composition.config_name:
        return composition
    return msgspec.structs.replace(composition, config_name=name)


def _seed(seed: int) -> int:
    if not 0 <= seed < 2**31:
        raise BadOption(f"the seed {seed} is not from 0 to {2**31 - 1}")
    return seed
