# SPDX-License-Identifier: Apache-2.0
"""The student that acts while the expert labels: any installed backend that fits the platform."""

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
    """Load the backend in this process, on one thread; None when there is no student."""
    if not source.backend:
        return None
    backend = _load(source)

    def act(observation: Observation) -> Actions:
        return backend.predict(PredictionInput(observation=observation, session="student")).actions

    return act


def identify(source: StudentSource) -> str:
    """Name the student's weights, for the record; empty when there is no student."""
    if not source.backend:
        return ""
    backend = _load(source)
    weights = backend.meta.provenance.get("weights_sha256", backend.meta.checkpoint)
    backend.close()
    return f"{backend.meta.backend} {weights}"


def _load(source: StudentSource) -> Backend:
    spec = find_backend(source.backend)
    context = LoadContext(
        platform="libero", checkpoint=source.checkpoint, threads=1, say=lambda phase: None
    )
    return spec.load(spec.options(), context)
