# SPDX-License-Identifier: Apache-2.0
"""The student that acts while the expert labels: any installed backend that fits the platform.

One that remembers what it saw does not fit: nothing tells it where an episode begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from rpent_box.plugins import find_backend
from rpent_box.worker.backend import Backend, LoadContext, PredictionInput

if TYPE_CHECKING:
    from rpent_box.contracts.observation import Actions, Observation
    from rpent_box_libero.teaching.episode import Student


class StudentSource(Struct, frozen=True, kw_only=True):
    """Which backend with which weights."""

    backend: str = ""
    """Empty: there is no student."""
    checkpoint: str | None = None
    """None: the backend's built-in weights."""


NO_STUDENT = StudentSource()


def load_student(source: StudentSource) -> Student | None:
    """Return how the student acts; None when there is no student."""
    if not source.backend:
        return None
    backend = load_backend(source)

    def act(observation: Observation) -> Actions:
        return backend.predict(PredictionInput(observation=observation, session="student")).actions

    return act


def identify(source: StudentSource) -> str:
    """Name the student's weights, for the record; empty when there is no student."""
    if not source.backend:
        return ""
    backend = load_backend(source)
    try:
        return name_of(backend)
    finally:
        backend.close()


def name_of(backend: Backend) -> str:
    """Name a backend that is loaded by its weights."""
    weights = backend.meta.provenance.get("weights_sha256", backend.meta.checkpoint)
    return f"{backend.meta.backend} {weights}"


def load_backend(source: StudentSource) -> Backend:
    """Load the backend in this process, on one thread."""
    spec = find_backend(source.backend)
    context = LoadContext(
        platform="libero", checkpoint=source.checkpoint, threads=1, say=lambda phase: None
    )
    return spec.load(spec.options(), context)
