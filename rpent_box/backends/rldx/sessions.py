# SPDX-License-Identifier: Apache-2.0
"""What this worker keeps for each of its sessions, besides what the server remembers."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.rldx.past import Recollection


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """One session between two resets."""

    native_id: str
    """What the server calls it."""
    connection: int
    """The connection to the server that it was begun on; on another one its memory is gone."""
    past: Recollection
    is_fresh: bool = True
    """Nothing was predicted since its reset."""
    is_lost: bool = False
    """A question was not answered: nobody knows whether the server has seen that observation."""
    last: NDArray[np.floating[Any]] | None = None
    """[horizon, 12], the chunk predicted last, in model units."""


class NativeNames:
    """Names of sessions at the server: no two workers that borrow one server share any."""

    def __init__(self) -> None:
        self._worker = secrets.token_hex(4)

    def of(self, session: str) -> str:
        return f"rpent-box-{self._worker}-{session}"
