# SPDX-License-Identifier: Apache-2.0
"""What an RLDX server says that its model sees and answers, compared with what RoboCasa has."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from rpent_box.backends.rldx.names import CAMERAS, COLUMNS, PROPRIO, past_role
from rpent_box.errors import IncompatibleWorker, ProtocolMismatch

CLASS = "__ModalityConfig_class__"


class Modality(Struct, frozen=True, kw_only=True):
    """The names are the checkpoint's own, in its own order."""

    cameras: tuple[str, ...]
    steps_ago: tuple[int, ...]
    """Which control steps' frames the model is shown, oldest first; the last is 0, now."""
    states: tuple[str, ...]
    language: str
    actions: tuple[str, ...]
    horizon: int

    @property
    def camera_roles(self) -> tuple[str, ...]:
        """Our roles for all frames: those of now, then those of each earlier step."""
        return tuple(
            past_role(CAMERAS[camera], steps)
            for steps in reversed(self.steps_ago)
            for camera in self.cameras
        )

    @property
    def proprio_schema(self) -> dict[str, int]:
        return dict(PROPRIO[state] for state in self.states)


class _Config(Struct, frozen=True):
    """One modality as upstream writes it (rldx/data/types.py, `ModalityConfig`), in part."""

    delta_indices: tuple[int, ...]
    modality_keys: tuple[str, ...]


def read_modality(answer: object) -> Modality:
    """Return what `get_modality_config` says.

    Raises `ProtocolMismatch` when it cannot be read, and `IncompatibleWorker` when the model is
    one for another robot than RoboCasa's.
    """
    configs = {name: _config(name, value) for name, value in _items(answer)}
    _require_same("modalities", configs, {"video", "state", "action", "language"})
    video, state = configs["video"], configs["state"]
    action, language = configs["action"], configs["language"]
    _require_known("camera", video.modality_keys, CAMERAS)
    _require_same("cameras", (CAMERAS[key] for key in video.modality_keys), set(CAMERAS.values()))
    _require_same("state vectors", state.modality_keys, set(PROPRIO))
    _require_same("action parts", action.modality_keys, set(COLUMNS))
    _require(state.delta_indices == (0,), f"state at the steps {list(state.delta_indices)}")
    _require(len(language.modality_keys) == 1, f"{len(language.modality_keys)} instructions")
    steps = action.delta_indices
    _require(steps and steps == tuple(range(len(steps))), f"actions for the steps {list(steps)}")
    return Modality(
        cameras=video.modality_keys,
        steps_ago=_steps_ago(video.delta_indices),
        states=state.modality_keys,
        language=language.modality_keys[0],
        actions=action.modality_keys,
        horizon=len(steps),
    )


def _items(answer: object) -> Iterable[tuple[str, object]]:
    if not isinstance(answer, dict) or not all(isinstance(name, str) for name in answer):
        raise ProtocolMismatch(
            f"the RLDX server described its modalities as {type(answer).__name__}; wanted a map"
        )
    return answer.items()


def _config(name: str, value: object) -> _Config:
    written = value.get("as_json") if isinstance(value, dict) and CLASS in value else value
    try:
        return msgspec.convert(written, _Config)
    except msgspec.ValidationError as error:
        raise ProtocolMismatch(
            f"the RLDX server's description of its {name} cannot be read: {error}"
        ) from error


def _steps_ago(deltas: tuple[int, ...]) -> tuple[int, ...]:
    steps = tuple(-delta for delta in deltas)
    in_order = list(steps) == sorted(set(steps), reverse=True)
    _require(steps and steps[-1] == 0 and in_order, f"frames of the steps {list(deltas)}")
    return steps


def _require_known(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        _require(name in known, f"the {what} {name}; RoboCasa has {', '.join(known)}")


def _require_same(what: str, names: Iterable[str], wanted: set[str]) -> None:
    found = list(names)
    _require(
        sorted(found) == sorted(wanted),
        f"the {what} {', '.join(found) or 'none'}; RoboCasa has {', '.join(sorted(wanted))}",
    )


def _require(holds: object, found: str) -> None:
    if not holds:
        raise IncompatibleWorker(
            f"the RLDX server's model is not one for RoboCasa: it has {found}",
            hint="Serve a checkpoint that was trained on RoboCasa365, e.g. RLDX-1-FT-RC365.",
        )
