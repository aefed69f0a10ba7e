# SPDX-License-Identifier: Apache-2.0
"""What a worker asks of the service: defaults, then the configuration file, then the options."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from rpent_box.backends.checkpoint_files import read_yaml
from rpent_box.backends.cosmos3.options import Cosmos3Options, Normalisation
from rpent_box.backends.patience import LONGEST_S
from rpent_box.errors import BadCheckpoint, BadOption

BLOCK = 16
"""Pixels a side of what the model's autoencoder turns into one number per channel."""
_COUNTS = (
    "num_action_chunks",
    "fps",
    "num_inference_steps",
    "batching_max_size",
    "concurrent_requests",
)


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that decides a request and what is made of its answer."""

    action_stats: str | None = None
    """Path of the statistics; None only where `action_normalization` is `none`."""
    action_normalization: Normalisation = "quantile_rot"
    num_action_chunks: int = 16
    num_frames: int = 17
    action_fps: float = 20.0
    fps: int = 20
    num_inference_steps: int = 30
    size: str = "320x192"
    domain_name: str = "libero"
    action_view_point: str = "ego_view"
    seed: int = 1
    http_timeout_s: float = 600.0
    batching_max_size: int = 1
    concurrent_requests: int = 1

    @property
    def width_height(self) -> tuple[int, int]:
        """The model's frame in pixels."""
        width, _, height = self.size.partition("x")
        return int(width), int(height)

    @property
    def action_horizon(self) -> int:
        """Actions lie between frames, so there is one less."""
        return self.num_frames - 1


class _Evaluated(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    env_type: str | None = None


class _Environment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    eval: _Evaluated = _Evaluated()


class _Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    raw_action_dim: Literal[10] = 10
    action_dim: Literal[7] = 7
    action_mode: Literal["policy"] = "policy"
    action_normalization: Normalisation | None = None
    action_stats_path: str | None = None
    num_action_chunks: int | None = None
    action_fps: float | None = None
    fps: int | None = None
    num_inference_steps: int | None = None
    action_view_point: str | None = None
    num_frames: int | None = None
    size: str | None = None


class _Server(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    batching_max_size: int | None = None


class _SGLang(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    seed: int | None = None
    http_timeout_s: float | None = None
    server: _Server = _Server()


class _Rollout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: _Model = _Model()
    sglang: _SGLang = _SGLang()


class _Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    env: _Environment = _Environment()
    rollout: _Rollout = _Rollout()


def settings_from(options: Cosmos3Options) -> Settings:
    """Return what `options` come to. Raises `BadOption`, or `BadCheckpoint` for a file."""
    chosen = {} if options.config is None else _read_config(Path(options.config))
    names = {field.name for field in msgspec.structs.fields(Settings)}
    given = {name: getattr(options, name) for name in names}
    chosen |= {name: value for name, value in given.items() if value is not None}
    settings = Settings(**chosen)
    _require_possible(settings)
    return settings


def check_endpoint(endpoint: str) -> str:
    """Return the service's address without a slash at its end. Raises `BadOption`."""
    if not endpoint:
        raise BadOption(
            "cosmos3 is the client of an SGLang service, and none is named",
            hint="Name it: --sglang-endpoint http://127.0.0.1:30000. How to start one: "
            "images/sglang/README.md",
        )
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", endpoint) or not _has_place(endpoint):
        shown = re.sub(r"//[^/]*@", "//…@", endpoint)
        raise BadOption(
            f"{shown} is no address of a service",
            hint="Wanted: --sglang-endpoint http://HOST:PORT",
        )
    return endpoint.rstrip("/")


def _has_place(endpoint: str) -> bool:
    """Tell whether an address has a host and, if any, a port that can be."""
    try:
        parts = urlsplit(endpoint)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _read_config(path: Path) -> dict[str, Any]:
    """Return the settings that a configuration file makes."""
    raw = read_yaml(path, role="configuration")
    try:
        config = msgspec.convert(raw, _Config)
    except msgspec.ValidationError as error:
        raise BadOption(
            f"the configuration {path} cannot be used: {error}",
            hint="It takes env.eval.env_type, rollout.model.{"
            + ",".join(field.name for field in msgspec.structs.fields(_Model))
            + "}, rollout.sglang.{seed,http_timeout_s} and rollout.sglang.server.batching_max_size",
        ) from error
    model, sglang = config.rollout.model, config.rollout.sglang
    found = {name: value for name, value in msgspec.structs.asdict(model).items()}
    for same_everywhere in ("raw_action_dim", "action_dim", "action_mode"):
        del found[same_everywhere]
    stats = found.pop("action_stats_path")
    found |= {
        # Beside the file that names it: a worker's own working directory is nobody's choice.
        "action_stats": None if stats is None else str(path.parent / Path(stats).expanduser()),
        "domain_name": config.env.eval.env_type,
        "seed": sglang.seed,
        "http_timeout_s": sglang.http_timeout_s,
        "batching_max_size": sglang.server.batching_max_size,
    }
    return {name: value for name, value in found.items() if value is not None}


def _require_possible(settings: Settings) -> None:
    """Refuse what the service would refuse, or would get wrong without a word.

    Raises `BadOption`, and `BadCheckpoint` where the statistics are missing.
    """
    _require_numbers(settings)
    _require_size(settings.size)
    if not settings.domain_name or not settings.action_view_point:
        raise BadOption("domain_name and action_view_point cannot be empty")
    if settings.num_frames < 5 or (settings.num_frames - 1) % 4:
        raise BadOption(
            f"num_frames is {settings.num_frames}; wanted 1 + a multiple of 4 (5, 9, 13, 17, …), "
            "since the model's autoencoder takes four frames at a time"
        )
    if settings.num_action_chunks > settings.action_horizon:
        raise BadOption(
            f"num_action_chunks is {settings.num_action_chunks}, but {settings.num_frames} frames "
            f"give {settings.action_horizon} actions",
            hint="Lower --num-action-chunks, or raise --num-frames to what the checkpoint was "
            "trained with.",
        )
    if settings.action_normalization != "none" and settings.action_stats is None:
        raise BadCheckpoint(
            "the action statistics are missing: without them a prediction cannot be turned into "
            "motion",
            hint="Give the file of the checkpoint's training, e.g. --action-stats "
            "libero_native_frame_wise_relative_rot6d.json",
        )


def _require_numbers(settings: Settings) -> None:
    for name in _COUNTS:
        if getattr(settings, name) < 1:
            raise BadOption(f"{name} is {getattr(settings, name)}; wanted 1 or more")
    for name, most in (("action_fps", 1000.0), ("http_timeout_s", LONGEST_S)):
        value = getattr(settings, name)
        if not (math.isfinite(value) and 0 < value <= most):
            raise BadOption(f"{name} is {value:g}; wanted more than 0, at most {most:g}")
    if settings.seed < 0:
        raise BadOption(f"seed is {settings.seed}; wanted 0 or more")


def _require_size(size: str) -> None:
    if not re.fullmatch(r"[1-9]\d{0,4}x[1-9]\d{0,4}", size):
        raise BadOption(f"size is {size}; wanted WIDTHxHEIGHT, e.g. 320x192")
    if any(int(side) % BLOCK for side in size.split("x")):
        raise BadOption(
            f"size is {size}; both sides must be multiples of {BLOCK}, else the service cuts what "
            "is beyond without a word"
        )
