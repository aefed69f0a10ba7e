# SPDX-License-Identifier: Apache-2.0
"""The service behind its adapter, as a backend."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from rpent_box.backends.adapter import Adapter, adapter_for
from rpent_box.backends.cosmos3.adapter import ADAPTERS, Recipe
from rpent_box.backends.cosmos3.adapter.encode import ModelInput, is_whole
from rpent_box.backends.cosmos3.answer import Chunk, read_answer
from rpent_box.backends.cosmos3.checkpoint import inspect
from rpent_box.backends.cosmos3.client import SGLangClient
from rpent_box.backends.cosmos3.grouping import group_by_prompt
from rpent_box.backends.cosmos3.options import Cosmos3Options
from rpent_box.backends.cosmos3.request import build_request
from rpent_box.backends.cosmos3.service import Service, find_service
from rpent_box.backends.cosmos3.settings import Settings, check_endpoint, settings_from
from rpent_box.backends.cosmos3.statistics import read_denormaliser
from rpent_box.backends.digest import sha256_of
from rpent_box.backends.noise import noise_seed
from rpent_box.backends.request_options import refuse_unknown_options
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk
from rpent_box.errors import BadOption
from rpent_box.worker.backend import LoadContext, PredictionInput

OVERHEAD_S = 30.0
"""What a prediction may take besides the service's own time: queueing, pictures, the way back."""

_log = logging.getLogger("rpent_box.cosmos3")


class Asks(Protocol):
    """What a backend needs of its client."""

    def generate(self, bodies: Sequence[bytes], *, at_once: int, deadline: float) -> list[bytes]:
        """Return the answers, in order."""

    def close(self) -> None:
        """Hang up."""


class _Group(Struct, frozen=True, kw_only=True):
    """The environments of one request."""

    places: list[int]
    seed: int


class Cosmos3:
    """Asks the service; remembers nothing between predictions.

    The service draws all noise of a request from one seed, in one piece: how much of it falls to
    which environment depends on how many there are. So an environment has a request of its own, and
    its noise depends on its moment alone, unless `batching_max_size` says that speed comes first.
    """

    def __init__(
        self,
        client: Asks,
        service: Service,
        settings: Settings,
        recipe: Recipe,
        adapter: Adapter[Recipe, ModelInput],
        meta: ModelMeta,
    ) -> None:
        self._client = client
        self._service = service
        self._settings = settings
        self._recipe = recipe
        self._adapter = adapter
        self._meta = meta

    @property
    def meta(self) -> ModelMeta:
        return self._meta

    def predict(self, request: PredictionInput) -> ActionChunk:
        return self.predict_batch([request])[0]

    def predict_batch(self, requests: Sequence[PredictionInput]) -> list[ActionChunk]:
        """Return one chunk per request, in order, all within one `http_timeout_s`.

        Raises `BadOption`, `BadActions`, `DeadlineExceeded` or `PredictionFailed`.
        """
        begun = time.monotonic()
        deadline = begun + self._settings.http_timeout_s
        for request in requests:
            refuse_unknown_options(request.options, backend="cosmos3")
        inputs = [self._adapter.encode(request.observation, self._recipe) for request in requests]
        groups = self._groups(inputs, requests)
        bodies = [
            build_request(
                [inputs[place] for place in group.places], self._settings, group.seed
            ).body()
            for group in groups
        ]
        ready = time.monotonic()
        answers = self._client.generate(
            bodies, at_once=self._settings.concurrent_requests, deadline=deadline
        )
        timings = {"encode": ready - begun, "infer": time.monotonic() - ready}
        found: dict[int, ActionChunk] = {}
        for group, answer in zip(groups, answers, strict=True):
            chunks = self._read(answer, len(group.places))
            for place, chunk in zip(group.places, chunks, strict=True):
                found[place] = self._decode(chunk, requests[place], group, timings)
        return [found[place] for place in range(len(requests))]

    def reset(self, session: str) -> None:
        """Nothing to forget."""

    def drop(self, session: str) -> None:
        """Nothing to free."""

    def close(self) -> None:
        """Hang up. The service is borrowed and lives on."""
        self._client.close()

    def _groups(
        self, inputs: Sequence[ModelInput], requests: Sequence[PredictionInput]
    ) -> list[_Group]:
        """Return who shares a request, and the seed of each: that of its first environment."""
        places = group_by_prompt([one.prompt for one in inputs], self._settings.batching_max_size)
        return [
            _Group(places=group, seed=noise_seed(self._settings.seed, requests[group[0]].episode))
            for group in places
        ]

    def _read(self, answer: bytes, count: int) -> list[Chunk]:
        return read_answer(
            answer,
            count=count,
            model=self._service.model,
            service=f"the SGLang service at {self._service.endpoint}",
        )

    def _decode(
        self,
        chunk: Chunk,
        request: PredictionInput,
        group: _Group,
        timings: dict[str, float],
    ) -> ActionChunk:
        begun = time.monotonic()
        whole = is_whole(request.observation)
        if not whole:
            _log.warning("the cameras differ in size, so the model saw the first one alone")
        return ActionChunk(
            actions=self._adapter.decode(chunk, self._recipe),
            metadata={
                "noise_seed": group.seed,
                "environments_in_request": len(group.places),
                "steps_predicted": len(chunk),
                "saw_every_camera": whole,
            },
            timings_s={**timings, "decode": time.monotonic() - begun},
        )


def load(options: Cosmos3Options, context: LoadContext) -> Cosmos3:
    """Check settings and statistics, then find the service and ask it what it serves.

    Raises `BadOption` or `BadCheckpoint` before anything is asked, and `WorkerFailed` when nobody
    answers.
    """
    if context.checkpoint is None:
        raise BadOption("cosmos3 needs the name of the served model", hint="--checkpoint NAME")
    adapter = adapter_for(ADAPTERS, context.platform, backend="cosmos3")
    endpoint = check_endpoint(options.sglang_endpoint)
    context.say("checking settings and statistics")
    inspect(options, Path(context.checkpoint), context.platform)
    settings = settings_from(options)
    recipe = recipe_of(settings)
    client = SGLangClient(endpoint)
    try:
        service = find_service(
            client,
            settings,
            context.checkpoint,
            wait_s=options.service_wait_s,
            say=context.say,
        )
        meta = describe(service, settings, adapter, context.checkpoint)
    except BaseException:
        client.close()
        raise
    return Cosmos3(client, service, settings, recipe, adapter, meta)


def recipe_of(settings: Settings) -> Recipe:
    """Return what the adapter needs of `settings`. Raises `BadCheckpoint`."""
    return Recipe(
        width_height=settings.width_height,
        num_action_chunks=settings.num_action_chunks,
        denormaliser=read_denormaliser(settings.action_stats, settings.action_normalization),
    )


def describe(
    service: Service,
    settings: Settings,
    adapter: Adapter[Recipe, ModelInput],
    checkpoint: str,
) -> ModelMeta:
    """Return what the worker declares."""
    return ModelMeta(
        kind="wam",
        backend="cosmos3",
        checkpoint=checkpoint,
        control=control_spec(adapter.space),
        camera_roles=adapter.camera_roles,
        proprio_schema=dict(adapter.proprio_schema),
        action_horizon=settings.action_horizon,
        execute_steps=settings.num_action_chunks,
        max_batch=settings.batching_max_size * settings.concurrent_requests,
        prediction_timeout_s=settings.http_timeout_s + OVERHEAD_S,
        provenance={
            "service": service.endpoint,
            "served_model": service.model,
            "served_from": service.model_path,
            "sglang": service.release,
            "licence": "the checkpoint's own, see its model card",
            "statistics_sha256": sha256_of(settings.action_stats) if settings.action_stats else "",
            "normalisation": settings.action_normalization,
            "num_inference_steps": str(settings.num_inference_steps),
            "seed": str(settings.seed),
            "batching_max_size": str(settings.batching_max_size),
        },
    )
