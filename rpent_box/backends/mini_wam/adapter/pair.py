# SPDX-License-Identifier: Apache-2.0
"""What an adapter is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.backends.mini_wam.manifest import Manifest
from rpent_box.contracts.control import ActionSpace
from rpent_box.contracts.observation import Actions, Observation


class NetworkInput(Struct, frozen=True, kw_only=True):
    """What the network takes."""

    images: NDArray[np.uint8]
    """uint8 [batch, camera, 3, 128, 128], upright, one plane per colour: red, green, blue."""
    proprio: NDArray[np.float32]
    """float32 [batch, 9], normalised."""
    instruction: NDArray[np.float32]
    """float32 [batch, TEXT_FEATURES]."""


Encode: TypeAlias = Callable[[Sequence[Observation], Manifest], NetworkInput]
Decode: TypeAlias = Callable[[NDArray[np.float32]], Actions]
"""Network output [horizon, 7] of one observation → native actions."""


class Adapter(Struct, frozen=True, kw_only=True):
    """A platform's way in and its way out; neither makes sense without the other."""

    space: ActionSpace
    encode: Encode
    decode: Decode
