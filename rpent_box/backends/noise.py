# SPDX-License-Identifier: Apache-2.0
"""Noise that depends on which moment of which episode it is for, and on nothing else."""

from __future__ import annotations

import hashlib

from rpent_box.contracts.messages import EpisodeKey


def noise_seed(seed: int, episode: EpisodeKey | None) -> int:
    """Return a seed from 0 to 2**31 - 1 for the noise of one prediction.

    `seed` is the model's own option. The same (seed, suite, task, init state, chunk) gives the same
    noise, whatever the order, the shards or a resume; two different ones share theirs only by
    chance. Without an episode it is `seed` itself, as upstream code has it.
    """
    if episode is None:
        return seed % 2**31
    parts = (seed, episode.seed, episode.suite, episode.task, episode.episode, episode.chunk)
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:4], "little") % 2**31
