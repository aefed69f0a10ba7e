# SPDX-License-Identifier: Apache-2.0
"""How a robot is commanded: versioned action spaces, as data shared by platforms and backends."""

from __future__ import annotations

from msgspec import Struct


class ActionField(Struct, frozen=True, kw_only=True):
    """One column of an action."""

    name: str
    unit: str
    """What 1.0 means, e.g. `0.05 m` or `rad`."""
    low: float
    high: float


class ActionSpace(Struct, frozen=True, kw_only=True):
    """Everything that could be got wrong silently about a row of numbers."""

    id: str
    """Versioned: `libero.osc_pose.delta.v1`. A change of meaning is a new id."""
    embodiment: str
    action_type: str | None
    """The simulator's own controller switch, e.g. `qpos` or `ee`; None where it has just one."""
    fields: tuple[ActionField, ...]
    frame: str
    rotation: str
    gripper: str
    control_hz: float

    @property
    def action_dim(self) -> int:
        return len(self.fields)


class ControlSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must be equal on both sides before a robot moves."""

    embodiment: str
    action_space: str
    """The `ActionSpace.id`."""
    action_schema: tuple[str, ...]
    """Field names in column order."""
    action_type: str | None

    @property
    def action_dim(self) -> int:
        return len(self.action_schema)


def control_spec(space: ActionSpace) -> ControlSpec:
    """Return the identity of `space` that travels on the wire."""
    return ControlSpec(
        embodiment=space.embodiment,
        action_space=space.id,
        action_schema=tuple(field.name for field in space.fields),
        action_type=space.action_type,
    )
