# SPDX-License-Identifier: Apache-2.0
"""Whether a model fits a platform, and if not, why not: asked before the first step."""

from __future__ import annotations

from rpent_box.contracts.control import ControlSpec
from rpent_box.contracts.meta import ModelMeta, PlatformMeta
from rpent_box.errors import IncompatibleWorker


def explain_mismatch(model: ModelMeta, platform: PlatformMeta) -> list[str]:
    """Return one sentence for each thing that does not fit; empty when the pair fits."""
    return [
        *_control_mismatch(model.control, platform),
        *_camera_mismatch(model, platform),
        *_proprio_mismatch(model, platform),
        *_chunk_mismatch(model),
    ]


def require_fit(model: ModelMeta, platform: PlatformMeta, *, fitting: tuple[str, ...] = ()) -> None:
    """Raise `IncompatibleWorker` unless `model` can move `platform`.

    `fitting` names the backends that would fit, for the error's text.
    """
    reasons = explain_mismatch(model, platform)
    if not reasons:
        return
    would_fit = ", ".join(fitting) if fitting else "none that is installed"
    raise IncompatibleWorker(
        f"{model.backend} ({model.checkpoint}) does not fit {platform.name}: " + "; ".join(reasons),
        hint=f"Backends that fit {platform.name}: {would_fit}. See: rpent-box list",
    )


def _control_mismatch(control: ControlSpec, platform: PlatformMeta) -> list[str]:
    if control in platform.controls:
        return []
    for offered in platform.controls:
        if offered.action_space == control.action_space:
            return [_same_space_differs(control, offered)]
    wants = " or ".join(offered.action_space for offered in platform.controls)
    return [f"the model acts in {control.action_space}, but {platform.name} moves in {wants}"]


def _same_space_differs(control: ControlSpec, offered: ControlSpec) -> str:
    differing = [
        f"{name} is {getattr(control, name)!r}, the platform's is {getattr(offered, name)!r}"
        for name in ("embodiment", "action_schema", "action_type")
        if getattr(control, name) != getattr(offered, name)
    ]
    return f"both name {control.action_space}, but " + " and ".join(differing)


def _camera_mismatch(model: ModelMeta, platform: PlatformMeta) -> list[str]:
    missing = [role for role in model.camera_roles if role not in platform.camera_roles]
    if not missing:
        return []
    return [
        f"the model looks through {', '.join(missing)}, "
        f"but the platform's cameras are {', '.join(platform.camera_roles)}"
    ]


def _proprio_mismatch(model: ModelMeta, platform: PlatformMeta) -> list[str]:
    reasons = []
    for name, length in model.proprio_schema.items():
        offered = platform.proprio_schema.get(name)
        if offered is None:
            names = ", ".join(platform.proprio_schema)
            reasons.append(f"the model needs proprio {name}, but the platform measures {names}")
        elif offered != length:
            reasons.append(f"proprio {name} has {offered} numbers, the model wants {length}")
    return reasons


def _chunk_mismatch(model: ModelMeta) -> list[str]:
    if 1 <= model.execute_steps <= model.action_horizon:
        return []
    return [
        f"execute_steps is {model.execute_steps}, "
        f"outside 1 to the action horizon {model.action_horizon}"
    ]
