# SPDX-License-Identifier: Apache-2.0
"""What a running service needs to know. Read once, at the edge, from the command line."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from rpent_box.contracts.checkpoint import CheckpointManifest

DEFAULT_SESSION_IDLE_S = 600.0
DEFAULT_DRAIN_S = 30.0


class ServiceConfig(Struct, frozen=True, kw_only=True):
    """Limits of one service. Every field has a default, so that a test states what it tests."""

    max_batch: int | None = None
    """Observations per inference; None: as many as the model takes. Never more than that."""
    max_wait_ms: float | None = None
    """How long the first observation of a batch waits for company; None: as measured times tell."""
    session_idle_s: float = DEFAULT_SESSION_IDLE_S
    """After so long without a word from its connection, a session's memory is dropped."""
    drain_s: float = DEFAULT_DRAIN_S
    """How long queued predictions may take once the worker was asked to end."""
    failed_linger_s: float = 10.0
    """How long a worker whose model did not load stays to say so."""
    sweep_s: float = 1.0
    """How often dead and idle connections are looked for."""
    lease: Path | None = None
    """The owner's lock file; None: nobody owns this worker."""
    checkpoint_files: CheckpointManifest | None = None
    """What the owner found the checkpoint to be: told to clients with the model's meta."""
    facts: dict[str, str] = {}
    """What else decides the actions, e.g. the device: added to the model's provenance."""
