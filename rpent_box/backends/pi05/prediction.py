# SPDX-License-Identifier: Apache-2.0
"""What a client may ask of a single prediction."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rpent_box.backends.pi05.options import LAST_SEED, MOST_STEPS, Pi05Options
from rpent_box.backends.request_options import refuse_unknown_options
from rpent_box.errors import BadOption


class PredictionOptions(Struct, frozen=True, kw_only=True):
    """The worker's own options, where the client asked for nothing else."""

    num_steps: int
    """Denoising steps."""
    seed: int
    """Of the noise, together with the episode's moment."""


def read_prediction_options(
    given: Mapping[str, float | int | str | bool], options: Pi05Options
) -> PredictionOptions:
    """Return what one prediction shall use. Raises `BadOption` for anything else than is known."""
    refuse_unknown_options(given, known=("num_steps", "seed"), backend="pi05")
    return PredictionOptions(
        num_steps=_whole(given, "num_steps", options.num_steps, least=1, most=MOST_STEPS),
        seed=_whole(given, "seed", options.seed, least=0, most=LAST_SEED),
    )


def _whole(
    given: Mapping[str, float | int | str | bool],
    name: str,
    default: int,
    *,
    least: int,
    most: int,
) -> int:
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadOption(f"pi05 got {name}={value!r}; wanted a whole number from {least} to {most}")
    return value
