# SPDX-License-Identifier: Apache-2.0
"""What a client may ask of one prediction is a closed set, of most models an empty one."""

from __future__ import annotations

from collections.abc import Iterable

from rpent_box.errors import BadOption


def refuse_unknown_options(
    given: Iterable[str], *, known: tuple[str, ...] = (), backend: str
) -> None:
    """Raise `BadOption` for names in `given` that are not among the `known` ones."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise BadOption(
            f"{backend} knows no option {', '.join(unknown)}",
            hint=f"It knows: {', '.join(known)}." if known else "",
        )
