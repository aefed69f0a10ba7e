# SPDX-License-Identifier: Apache-2.0
"""What a forked child must not keep: locks that say "my owner lives", and the right to remove.

`flock` belongs to the open file, which a fork shares: a child without exec would keep its dead
parent's segment or lease alive. Every owner here is abandoned in the child.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Owner(Protocol):
    def abandon(self) -> None:
        """Close the descriptor and forget it, so that close() removes nothing any more."""


_owners: weakref.WeakSet[Owner] = weakref.WeakSet()


def abandon_in_children(owner: Owner) -> None:
    """Have `owner.abandon()` called in every child that is forked from now on."""
    _owners.add(owner)


def _abandon_all() -> None:
    for owner in list(_owners):
        owner.abandon()


os.register_at_fork(after_in_child=_abandon_all)
