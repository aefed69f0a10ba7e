# SPDX-License-Identifier: Apache-2.0
"""Who the service is: asked once, before the first observation."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from rpent_box.backends.cosmos3.answer import shown
from rpent_box.backends.cosmos3.client import Reply, SGLangClient, told_by_service
from rpent_box.backends.cosmos3.settings import Settings
from rpent_box.errors import (
    BadCheckpoint,
    BadOption,
    DeadlineExceeded,
    PredictionFailed,
    WorkerFailed,
)

METADATA = "/v1/actions/metadata"
SERVER_INFO = "/server_info"
POLL_S = 0.5
STARTING = (502, 503)
"""What a service, or what stands before it, says while it loads."""
QUICK_S = 5.0

Say: TypeAlias = Callable[[str], None]

_WAIT_LONGER = "If it is only slow to load, wait longer: --service-wait-s SECONDS"


class Capabilities(Struct, frozen=True, kw_only=True):
    max_batch_size: int = 1


class Metadata(Struct, frozen=True, kw_only=True):
    """What `/v1/actions/metadata` says, as far as it matters here."""

    object: str
    model: str
    """The name under which the model is served."""
    model_path: str = ""
    policy_family: str
    capabilities: Capabilities = Capabilities()


class Service(Struct, frozen=True, kw_only=True):
    """A service that has been asked, and fits."""

    endpoint: str
    model: str
    model_path: str
    release: str
    """Of SGLang; empty when it does not say."""


def find_service(
    client: SGLangClient, settings: Settings, checkpoint: str, *, wait_s: float, say: Say
) -> Service:
    """Ask the service who it is, and return it if it serves `checkpoint`.

    One that is still starting is waited for, at most `wait_s`. Raises `WorkerFailed` when nobody
    answers or something else does, `BadCheckpoint` for another model, `BadOption` for a batch that
    it would not take.
    """
    metadata = _read(_await(client, time.monotonic() + wait_s, say), client.endpoint)
    if metadata.policy_family != "cosmos3":
        raise BadCheckpoint(
            f"{client.endpoint} serves {metadata.model}, a policy of the family "
            f"{metadata.policy_family}; wanted cosmos3",
            hint="Name the service of a Cosmos3 checkpoint: --sglang-endpoint http://HOST:PORT",
        )
    if not _names_it(checkpoint, metadata):
        raise BadCheckpoint(
            f"{client.endpoint} serves {metadata.model} ({metadata.model_path or 'no path told'}), "
            f"not {checkpoint}",
            hint=f"Give the name of what is served: --checkpoint {metadata.model}. Or start SGLang "
            f"with --served-model-name {checkpoint}",
        )
    most = metadata.capabilities.max_batch_size
    if settings.batching_max_size > most:
        raise BadOption(
            f"batching_max_size is {settings.batching_max_size}, but {client.endpoint} takes at "
            f"most {most} environments in a request",
            hint=f"Lower --batching-max-size, or start SGLang with --batching-max-size "
            f"{settings.batching_max_size}",
        )
    return Service(
        endpoint=client.endpoint,
        model=metadata.model,
        model_path=metadata.model_path,
        release=_release(client),
    )


def _await(client: SGLangClient, deadline: float, say: Say) -> Reply:
    """Ask until something answers; what is told at the deadline is the last that was learnt."""
    say(f"asking the SGLang service at {client.endpoint} what it serves")
    refused: PredictionFailed | None = None
    while True:
        try:
            reply = client.get(METADATA, deadline=deadline)
        except DeadlineExceeded as error:
            # The last question may have had next to no time: what came before says more.
            learnt = refused or error
            raise WorkerFailed(learnt.message, hint=_WAIT_LONGER) from learnt
        except PredictionFailed as error:
            refused = error
            if time.monotonic() + POLL_S >= deadline:
                raise WorkerFailed(error.message, hint=f"{error.hint}. {_WAIT_LONGER}") from error
        else:
            if reply.status not in STARTING:
                return reply
            if time.monotonic() + POLL_S >= deadline:
                raise WorkerFailed(
                    f"the SGLang service at {client.endpoint} is not ready: status {reply.status}",
                    hint=_WAIT_LONGER,
                )
        say(f"waiting for the SGLang service at {client.endpoint}")
        time.sleep(POLL_S)


def _read(reply: Reply, endpoint: str) -> Metadata:
    if reply.status != 200:
        raise WorkerFailed(
            f"{endpoint} answers {METADATA} with status {reply.status}: "
            f"{told_by_service(reply.body)}",
            hint="Wanted: sglang[diffusion] 0.5.19 serving a Cosmos3 checkpoint.",
        )
    try:
        return msgspec.convert(json.loads(reply.body), Metadata)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise WorkerFailed(
            f"{endpoint} answers {METADATA} with something else than an action model's metadata: "
            f"{error}",
            hint="Is that address SGLang's?",
            detail=shown(reply.body),
        ) from error


def _names_it(checkpoint: str, metadata: Metadata) -> bool:
    """Tell whether `checkpoint` is what is served: by name, by path, or by the path's last part.

    A model that is known by an organisation's name is often served from a folder called as the
    model alone.
    """
    told = [name for name in (metadata.model, metadata.model_path) if name]
    return checkpoint in told or _last(checkpoint) in {_last(name) for name in told}


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2]


def _release(client: SGLangClient) -> str:
    """Return SGLang's version for the record; empty when the service does not tell."""
    try:
        reply = client.get(SERVER_INFO, deadline=time.monotonic() + QUICK_S)
        said: Any = json.loads(reply.body) if reply.status == 200 else {}
    except (PredictionFailed, DeadlineExceeded, ValueError, RecursionError):
        return ""
    version = said.get("version") if isinstance(said, dict) else None
    return version if isinstance(version, str) else ""
