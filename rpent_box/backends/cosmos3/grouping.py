# SPDX-License-Identifier: Apache-2.0
"""Which environments share a request."""

from __future__ import annotations

from collections.abc import Sequence


def group_by_prompt(prompts: Sequence[str], most: int) -> list[list[int]]:
    """Return the places of `prompts` in groups of at most `most`, one prompt to a group.

    Prompts of one request must come to the same number of tokens, which equal ones do. Groups are
    in the order in which their prompts appear: [bowl, drawer, bowl, bowl], at most 2, gives
    [[0, 2], [3], [1]].
    """
    places: dict[str, list[int]] = {}
    for place, prompt in enumerate(prompts):
        places.setdefault(prompt, []).append(place)
    return [
        group[begin : begin + most]
        for group in places.values()
        for begin in range(0, len(group), most)
    ]
