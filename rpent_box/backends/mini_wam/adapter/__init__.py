# SPDX-License-Identifier: Apache-2.0
"""How a platform's observations go in and its actions come out: one pair per platform."""

from __future__ import annotations

from rpent_box.backends.mini_wam.adapter.decode import decode_libero
from rpent_box.backends.mini_wam.adapter.encode import encode_libero
from rpent_box.backends.mini_wam.adapter.pair import Adapter
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA

_LIBERO = Adapter(space=LIBERO_OSC_DELTA, encode=encode_libero, decode=decode_libero)

ADAPTERS: dict[str, Adapter] = {
    "libero": _LIBERO,
    # The same robot, cameras and control; other scenes and sentences.
    "libero-pro": _LIBERO,
}

__all__ = ["ADAPTERS", "Adapter"]
