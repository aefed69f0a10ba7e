# SPDX-License-Identifier: Apache-2.0
"""Who is asked the questions of the conformance suite, and what they are shown."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rpent_box_toy.backend import BACKEND as TOY
from running_service import RunningService, running

from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.observation import Observation
from rpent_box.errors import UnknownName
from rpent_box.plugins import backend_names, find_backend, find_platform
from rpent_box.worker.backend import Backend, BackendSpec, LoadContext
from rpent_box.worker.config import ServiceConfig
from rpent_box.worker.warm_up import blank_observation

SPECS = {TOY.name: TOY, **{name: find_backend(name) for name in backend_names()}}
PAIRS = [(name, platform) for name, spec in SPECS.items() for platform in spec.platforms]
FAKED = [(name, platform) for name, platform in PAIRS if name != TOY.name]
"""The toy, which is installed for tests alone, has no model to stand in for."""


class Spoiler:
    """What becomes of a fake model's answer; a test may change its mind."""

    def __init__(self) -> None:
        self.by = _unchanged

    def __call__(self, raw: NDArray[Any]) -> NDArray[Any]:
        return self.by(raw)

    def stop(self) -> None:
        self.by = _unchanged


class Subject:
    """One backend behind a worker."""

    def __init__(
        self,
        spec: BackendSpec,
        platform: str,
        backend: Backend,
        worker: RunningService,
        spoiler: Spoiler,
    ) -> None:
        self.spec = spec
        self.platform = platform
        self.backend = backend
        self.worker = worker
        self.client = worker.client
        self.spoiler = spoiler
        """Only a fake model heeds it."""


def name_of(pair: tuple[str, str]) -> str:
    return f"{pair[0]}-{pair[1]}"


@contextmanager
def served(
    name: str, platform: str, *, fake: bool = False, session_idle_s: float = 600.0
) -> Iterator[Subject]:
    """Serve a backend: the real thing where its weights are here, else its fake."""
    spec = SPECS[name]
    config = ServiceConfig(drain_s=10.0, sweep_s=0.1, session_idle_s=session_idle_s)
    spoiler = Spoiler()
    with (
        loaded(spec, platform, spoiler, fake=fake) as backend,
        running(backend, spec=spec, config=config) as worker,
    ):
        yield Subject(spec, platform, backend, worker, spoiler)


def loaded(spec: BackendSpec, platform: str, spoiler: Spoiler, *, fake: bool) -> Any:
    variable = f"RPENT_BOX_CHECKPOINT_{spec.name.upper().replace('-', '_')}"
    checkpoint = os.environ.get(variable)
    if fake or (spec.needs_checkpoint and checkpoint is None):
        return _fake(spec, platform, spoiler)
    has_gpu = shutil.which("nvidia-smi") is not None
    if spec.needs_gpu and not has_gpu and "cpu" not in spec.variants:
        pytest.skip(f"{variable} is given, but {spec.name} needs a GPU")
    context = LoadContext(
        platform=platform,
        checkpoint=checkpoint,
        threads=1,
        device="cuda" if spec.needs_gpu and has_gpu else "cpu",
        say=lambda _: None,
    )
    try:
        return nullcontext(spec.load(spec.options(), context))
    except ImportError as error:
        pytest.skip(f"{spec.name}'s framework is not installed here: {error}")


def _fake(spec: BackendSpec, platform: str, spoiler: Spoiler) -> Any:
    """A backend that nobody can ask is not done: a missing fake is a failure and no skip."""
    module = importlib.import_module(f"{spec.name.replace('-', '_')}_fake")
    return module.fake_backend(platform, spoil=spoiler)


def _unchanged(raw: NDArray[Any]) -> NDArray[Any]:
    return raw


def key(chunk: int, seed: int = 0) -> EpisodeKey:
    return EpisodeKey(seed=seed, suite="conformance", task=0, episode=1, chunk=chunk)


def seen_by(subject: Subject, seed: int = 0, *, size: tuple[int, int] | None = None) -> Observation:
    """Frames of noise and a robot at rest, at the platform's own size where it is installed."""
    height, width = size or _size(subject.platform)
    rng = np.random.default_rng(seed)
    blank = blank_observation(subject.backend.meta, (height, width, 3))
    images = {
        role: rng.integers(0, 256, image.shape, np.uint8) for role, image in blank.images.items()
    }
    return Observation(images=images, proprio=blank.proprio, instruction=blank.instruction)


def _size(platform: str) -> tuple[int, int]:
    try:
        return find_platform(platform).meta.image_size
    except UnknownName:
        return 256, 256
