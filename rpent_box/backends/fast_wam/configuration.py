# SPDX-License-Identifier: Apache-2.0
"""FastWAM's own configuration, composed by Hydra from its configs folder or taken from the YAML."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from msgspec import Struct
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rpent_box.backends.fast_wam.checkpoint import stated_layout
from rpent_box.backends.fast_wam.layout import Layout, layout_of, read_processor
from rpent_box.backends.fast_wam.model_section import (
    ModelSection,
    arguments_of,
    read_model_section,
)
from rpent_box.backends.fast_wam.recipe import Recipe
from rpent_box.errors import BadOption


class Configuration(Struct, frozen=True, kw_only=True):
    """What is needed to build the model and its adapter."""

    model: dict[str, Any]
    """The arguments of `FastWAM.from_wan22_pretrained`."""
    layout: Layout


def configure(recipe: Recipe, config_dir: str, *, converted: bool) -> Configuration:
    """Return the model's arguments and its layout, both checked against the platform.

    `config_dir` overrides the YAML's. `converted` says which layout the component files have.
    Raises `BadOption`.
    """
    if recipe.model is not None:
        model, layout = recipe.model, stated_layout(recipe)
    else:
        model, layout = _compose(recipe, config_dir)
    return Configuration(model=arguments_of(model, converted=converted), layout=layout)


def find_config_dir(given: str, stated: str) -> Path:
    """Return FastWAM's configs folder. Raises `BadOption`."""
    if given:
        return Path(given)
    if stated:
        if Path(stated).is_dir():
            return Path(stated)
        raise BadOption(
            f"the configuration names FastWAM's configs at {stated}, where this worker sees none",
            hint="Leave config_dir out to use the installed FastWAM's, or give --config-dir DIR.",
        )
    found = importlib.util.find_spec("fastwam")
    origin = Path(found.origin) if found is not None and found.origin else None
    folder = origin.parents[2] / "configs" if origin is not None else None
    if folder is None or not folder.is_dir():
        raise BadOption(
            f"FastWAM's configs folder is not beside the package ({folder or 'not installed'})",
            hint="Install FastWAM from its repository, editable, or give --config-dir DIR.",
        )
    return folder


def _compose(recipe: Recipe, config_dir: str) -> tuple[ModelSection, Layout]:
    composition = recipe.composition
    folder = find_config_dir(config_dir, composition.config_dir)
    source = f"{folder}/{composition.config_name}"
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str(folder.absolute())):
            composed = compose(composition.config_name, overrides=list(composition.overrides))
        model = read_model_section(_resolved(composed.model), recipe.platform, source)
        train = composed.data.train
        processor = read_processor(_resolved(train.processor), source)
        video_size = tuple(_resolved(train.video_size))
        concat = str(train.get("concat_multi_camera", "horizontal"))
    except (HydraException, OmegaConfBaseException) as error:
        raise BadOption(
            f"{source} cannot be composed with {list(composition.overrides)}: {error}"
        ) from error
    layout = layout_of(
        processor, recipe.platform, video_size=video_size, concat=concat, source=source
    )
    return model, layout


def _resolved(config: DictConfig) -> Any:  # noqa: ANN401 - a tree of plain values
    return OmegaConf.to_container(config, resolve=True)
