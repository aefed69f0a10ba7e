# SPDX-License-Identifier: Apache-2.0
"""What the model was trained to see and to move, as FastWAM's processor configuration says it."""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from rpent_box.errors import BadOption

Concat: TypeAlias = Literal["horizontal", "vertical", "robotwin"]
Size: TypeAlias = tuple[int, int]
"""Height and width in pixels."""

_CONSTANT = re.compile(r"-?[0-9.]+(e-?[0-9]+)?/-?[0-9.]+(e-?[0-9]+)?")
_PIXELS = 16
"""The VAE halves four times."""


class CameraShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One camera of the data set."""

    key: str
    raw_shape: tuple[int, int, int]
    shape: tuple[int, int, int]
    """Channels, height and width that the model is given."""


class VectorShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One vector of the data set."""

    key: str
    raw_shape: int
    shape: int


class ShapeMeta(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one row of the data set holds."""

    images: tuple[CameraShape, ...]
    action: tuple[VectorShape, ...]
    state: tuple[VectorShape, ...]


class Processor(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"target": "_target_"}
):
    """FastWAM's `data.train.processor`, resolved. What only training reads is kept as it is."""

    shape_meta: ShapeMeta
    num_output_cameras: int
    action_output_dim: int
    proprio_output_dim: int
    norm_default_mode: str
    norm_exception_mode: dict[str, dict[str, str]] | None = None
    use_stepwise_action_norm: bool = False
    action_state_transforms: list[Any] | None = None
    target: str = ""
    num_obs_steps: int = 1
    delta_action_dim_mask: dict[str, list[bool]] | None = None
    action_state_merger: dict[str, Any] | None = None
    train_transforms: Any = None
    val_transforms: Any = None
    drop_high_level_prob: float = 1.0
    use_zh_instruction: bool = False
    tokenizer: Any = None


class Layout(Struct, frozen=True, kw_only=True):
    """What the adapter needs to know of it."""

    cameras: tuple[Size, ...]
    """The size of each camera before they are joined."""
    video_size: Size
    """The size of the joined picture."""
    concat: Concat
    state_key: str = "default"
    action_key: str = "default"
    state_mode: str
    """How the state is normalised: `min/max`, `q01/q99`, `z-score`, or constants, e.g. `-1/1`."""
    action_mode: str


LIBERO = Layout(
    cameras=((224, 224), (224, 224)),
    video_size=(224, 448),
    concat="horizontal",
    state_mode="min/max",
    action_mode="min/max",
)
ROBOTWIN = Layout(
    cameras=((256, 320), (128, 160), (128, 160)),
    video_size=(384, 320),
    concat="robotwin",
    state_mode="z-score",
    action_mode="z-score",
)
"""FastWAM's own resizing of RoboTwin (experiments/robotwin/fastwam_policy/deploy_policy.py); the
camera shapes in its processor configuration are the data set's."""

DIMENSIONS = {"libero": (8, 7), "libero-pro": (8, 7), "robotwin": (14, 14)}
"""Platform → length of the state and of the action."""


def known_layout(platform: str) -> Layout:
    """Return the layout of FastWAM's own configuration for `platform`."""
    return ROBOTWIN if platform == "robotwin" else LIBERO


def read_processor(values: Any, source: str) -> Processor:  # noqa: ANN401 - decoded YAML
    """Return FastWAM's processor configuration. Raises `BadOption`."""
    try:
        return msgspec.convert(values, Processor)
    except msgspec.ValidationError as error:
        raise BadOption(f"the processor in {source} cannot be used: {error}") from error


def layout_of(
    processor: Processor, platform: str, *, video_size: Size, concat: str, source: str
) -> Layout:
    """Return what `processor` says, checked against `platform`. Raises `BadOption`."""
    known = known_layout(platform)
    _check_vectors(processor, platform, source)
    _check_normalising(processor, source)
    if processor.num_output_cameras != len(known.cameras) or len(
        processor.shape_meta.images
    ) != len(known.cameras):
        raise BadOption(
            f"{source} looks through {processor.num_output_cameras} of "
            f"{len(processor.shape_meta.images)} cameras; {platform} gives {len(known.cameras)}"
        )
    cameras = known.cameras
    if platform != "robotwin":
        cameras = tuple(camera.shape[1:] for camera in processor.shape_meta.images)
    state, action = processor.shape_meta.state[0].key, processor.shape_meta.action[0].key
    layout = Layout(
        cameras=cameras,
        video_size=video_size,
        concat=_concat(concat, platform, source),
        state_key=state,
        action_key=action,
        state_mode=_mode(processor, "state", state, source),
        action_mode=_mode(processor, "action", action, source),
    )
    _check_picture(layout, source)
    return layout


def joined_size(cameras: tuple[Size, ...], concat: Concat) -> Size | None:
    """Return the size of the joined picture; None where the cameras do not fit together."""
    first, *others = cameras
    if concat == "robotwin":
        left, right = others
        wide = left[1] + right[1]
        return (first[0] + left[0], wide) if left[0] == right[0] and first[1] == wide else None
    across = 0 if concat == "horizontal" else 1
    if any(other[across] != first[across] for other in others):
        return None
    along = sum(camera[1 - across] for camera in cameras)
    return (first[0], along) if concat == "horizontal" else (along, first[1])


def _check_vectors(processor: Processor, platform: str, source: str) -> None:
    state, action = DIMENSIONS[platform]
    for name, fields, output, length in (
        ("state", processor.shape_meta.state, processor.proprio_output_dim, state),
        ("action", processor.shape_meta.action, processor.action_output_dim, action),
    ):
        if len(fields) != 1:
            keys = ", ".join(field.key for field in fields) or "none"
            raise BadOption(f"{source} has several {name} keys ({keys}); wanted one, merged")
        lengths = {fields[0].raw_shape, fields[0].shape, output}
        if lengths != {length}:
            said = ", ".join(map(str, sorted(lengths)))
            raise BadOption(
                f"{source} has a {name} of {said} numbers; {platform} has {length}",
                hint="Give the configuration that the weights were trained with.",
            )


def _check_normalising(processor: Processor, source: str) -> None:
    if processor.use_stepwise_action_norm:
        raise BadOption(f"{source} normalises actions step by step, which this adapter cannot undo")
    if processor.action_state_transforms:
        raise BadOption(f"{source} transforms actions and states, which this adapter cannot undo")


def _mode(processor: Processor, part: str, key: str, source: str) -> str:
    exceptions = processor.norm_exception_mode or {}
    mode = exceptions.get(part, {}).get(key, processor.norm_default_mode)
    if mode in ("min/max", "q01/q99", "z-score") or _CONSTANT.fullmatch(mode):
        return mode
    raise BadOption(
        f"{source} normalises the {part} by {mode}",
        hint="Known are min/max, q01/q99, z-score, and two constants such as -1/1.",
    )


def _concat(concat: str, platform: str, source: str) -> Concat:
    if concat == "robotwin" and platform == "robotwin":
        return "robotwin"
    if concat == "horizontal" and platform != "robotwin":
        return "horizontal"
    if concat == "vertical" and platform != "robotwin":
        return "vertical"
    raise BadOption(f"{source} joins cameras by {concat}, which is not {platform}'s way")


def _check_picture(layout: Layout, source: str) -> None:
    joined = joined_size(layout.cameras, layout.concat)
    if joined != layout.video_size:
        cameras = ", ".join(f"{height}x{width}" for height, width in layout.cameras)
        raise BadOption(
            f"{source} has video_size {list(layout.video_size)}, but cameras of {cameras} joined "
            f"by {layout.concat} make {list(joined) if joined else 'no picture'}"
        )
    if any(side % _PIXELS for side in layout.video_size):
        raise BadOption(
            f"{source} has video_size {list(layout.video_size)}; both must divide by {_PIXELS}"
        )
