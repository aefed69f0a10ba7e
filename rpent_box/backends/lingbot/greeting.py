# SPDX-License-Identifier: Apache-2.0
"""What a LingBot server says about itself to who connects, and whether it is the right model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rpent_box.backends.lingbot.options import ACTION_HORIZON
from rpent_box.errors import IncompatibleWorker

CAMERA_ORDER = ("cam_high", "cam_left_wrist", "cam_right_wrist")
SHOWN = 200
"""Characters of a strange greeting that an error shows."""

_WANTED: dict[str, Any] = {
    "runtime": "lingbotvla",
    "policy_name": "robotwin_eef",
    "camera_order": list(CAMERA_ORDER),
    "state_layout": "eef16",
    "action_layout": "eef16",
}


def greeting(use_length: int) -> dict[str, Any]:
    """Return the metadata of a server that answers with `use_length` steps."""
    return {**_WANTED, "use_length": use_length}


def read_greeting(metadata: Mapping[Any, Any], *, execute_steps: int, where: str) -> int:
    """Return how many steps the server answers with, after checking that it is the right one.

    Entries that are not known here are let be. Raises `IncompatibleWorker`: a wrong camera order
    or layout would move the robot wrongly without an error.
    """
    wrong = [
        f"{name} is {_shown(metadata.get(name, 'missing'))}, wanted {wanted!r}"
        for name, wanted in _WANTED.items()
        if not _same(metadata.get(name), wanted)
    ]
    if wrong:
        raise IncompatibleWorker(
            f"the server at {where} does not serve LingBot-VLA for RoboTwin: {'; '.join(wrong)}",
            hint="Name a server of a RoboTwin EEF16 checkpoint, or give the checkpoint itself: "
            "--checkpoint DIR",
        )
    use_length = metadata.get("use_length")
    if type(use_length) is not int or not 1 <= use_length <= ACTION_HORIZON:
        raise IncompatibleWorker(
            f"the server at {where} says that it answers with use_length {_shown(use_length)} "
            f"steps; wanted 1 to {ACTION_HORIZON}",
        )
    if use_length < execute_steps:
        raise IncompatibleWorker(
            f"the server at {where} answers with {use_length} steps, and {execute_steps} shall be "
            "executed of each chunk",
            hint=f"Execute no more: --execute-steps {use_length}",
        )
    return use_length


def _same(came: object, wanted: object) -> bool:
    # An array would answer for each of its numbers.
    return type(came) is type(wanted) and repr(came) == repr(wanted)


def _shown(came: object) -> str:
    text = repr(came)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
