# SPDX-License-Identifier: Apache-2.0
"""What a client may ask of one prediction. A closed set."""

from __future__ import annotations

from collections.abc import Mapping

from rpent_box.backends.request_options import refuse_unknown_options
from rpent_box.errors import BadOption

RTC_PREFIX_LEN = "rtc_prefix_len"


def prefix_length(
    options: Mapping[str, float | int | str | bool], allowed: range | None
) -> int | None:
    """Return `rtc_prefix_len`; None when it is not given, and the server decides.

    It says how many steps of the last chunk, those behind the executed ones, the next chunk begins
    with. `allowed` is None where the server does no real-time chunking. Raises `BadOption` for an
    unknown option, one that would have no effect, or a length that is not allowed.
    """
    refuse_unknown_options(options, known=(RTC_PREFIX_LEN,), backend="rldx")
    if RTC_PREFIX_LEN not in options:
        return None
    length = options[RTC_PREFIX_LEN]
    if allowed is None:
        raise BadOption(
            f"{RTC_PREFIX_LEN} has no effect: this worker does no real-time chunking",
            hint="Start it with --rtc trained or --rtc guided, and --rtc-delay N.",
        )
    if type(length) is not int or length not in allowed:
        raise BadOption(
            f"{RTC_PREFIX_LEN} is {length!r}; wanted a whole number from {allowed[0]} to "
            f"{allowed[-1]}"
        )
    return length
