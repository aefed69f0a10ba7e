# SPDX-License-Identifier: Apache-2.0
"""Gathers the finished parts: a server of ours or a borrowed one, and what it says of itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec import Struct

from rpent_box.backends.adapter import adapter_for
from rpent_box.backends.rldx.adapter import ADAPTERS, RldxAdapter
from rpent_box.backends.rldx.adapter.encode import flattened
from rpent_box.backends.rldx.checkpoint import check_steps, read_checkpoint
from rpent_box.backends.rldx.client import RldxClient, nobody_watches
from rpent_box.backends.rldx.modality import Modality, read_modality
from rpent_box.backends.rldx.model import Rldx, Serving
from rpent_box.backends.rldx.options import RldxOptions, check_options
from rpent_box.backends.rldx.own_server import start_server
from rpent_box.backends.rldx.sessions import NativeNames
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import ModelMeta
from rpent_box.errors import BadOption, PredictionFailed, RpentBoxError, WorkerFailed
from rpent_box.worker.backend import LoadContext
from rpent_box.worker.warm_up import blank_observation

LICENCE = "code: Apache-2.0; WEIGHTS NON-COMMERCIAL: RLWRLD Model License v1.0"
_OVERHEAD_S = 30.0
"""What a client waits longer than we wait for the server."""

_FORGET_S = 5.0
"""How long the server may take to forget the first prediction."""

_log = logging.getLogger("rpent_box.rldx")


class Source(Struct, frozen=True, kw_only=True):
    """A server that answers, and where its weights come from."""

    endpoint: str
    token: str
    """What it asks for; empty: nothing."""
    watch: Callable[[], None]
    checkpoint: str
    provenance: dict[str, str]
    layouts: tuple[bool, ...]
    """Whether it may want flat names: one or both."""
    seed: int | None
    longest_prefix: int | None
    """What the checkpoint was trained to continue; None: any length, or not known."""


def load(options: RldxOptions, context: LoadContext) -> Rldx:
    """Start a server, or find the borrowed one, and predict once.

    Raises `BadOption`, `BadCheckpoint` or `IncompatibleWorker` for what does not fit, and
    `LaunchError`, `PeerGone` or `WorkerFailed` for a server that does not serve.
    """
    check_options(options)
    adapter = adapter_for(ADAPTERS, context.platform, backend="rldx")
    with ExitStack() as held:
        source = borrow(options) if options.service else own(options, context, held)
        client = held.enter_context(
            RldxClient(
                source.endpoint,
                token=source.token,
                timeout_s=options.timeout_s,
                watch=source.watch,
            )
        )
        context.say(f"asking the RLDX server at {source.endpoint} what its model sees")
        modality = read_modality(client.modality_config())
        check_steps(options, modality.horizon)
        _say_what_is_shown(modality, options)
        meta = describe(options, source, adapter, modality)
        context.say("waiting for a first prediction")
        is_flat = find_layout(client, source.layouts, adapter, modality, meta, options)
        serving = Serving(
            modality=modality,
            is_flat=is_flat,
            seed=source.seed,
            recalls=options.history == "predictions",
            prefix_lengths=prefix_lengths(options, modality.horizon, source.longest_prefix),
        )
        return Rldx(client, serving, adapter, meta, held=held.pop_all())


def borrow(options: RldxOptions) -> Source:
    """Return a server that somebody else has started."""
    return Source(
        endpoint=options.service,
        token=_token(options.token_file),
        watch=nobody_watches,
        checkpoint=options.service,
        provenance={
            "licence": LICENCE,
            "service": options.service,
            "noise": "drawn by a borrowed server, which takes no seed: two runs differ",
        },
        layouts=(False, True),
        seed=None,
        longest_prefix=None,
    )


def own(options: RldxOptions, context: LoadContext, held: ExitStack) -> Source:
    """Start a server from the checkpoint; it ends with `held`."""
    if context.checkpoint is None:
        raise BadOption(
            "rldx has no built-in weights",
            hint="Give them, --checkpoint DIR, or a running server, --service tcp://HOST:PORT.",
        )
    context.say("checking the checkpoint")
    path = Path(context.checkpoint)
    checkpoint = read_checkpoint(options, path, context.platform)
    if not options.hf_home:
        _log.warning(
            "no --hf-home: %s is looked for in this worker's own Hugging Face cache, which a "
            "container does not have",
            checkpoint.config.model_name,
        )
    endpoint, token, watch = start_server(options, path, context.device, context.say, held)
    return Source(
        endpoint=endpoint,
        token=token,
        watch=watch,
        checkpoint=path.name,
        provenance={"licence": LICENCE, **checkpoint.inspection.facts},
        layouts=(False,),
        seed=options.seed,
        longest_prefix=checkpoint.config.rtc_training_max_delay,
    )


def describe(
    options: RldxOptions, source: Source, adapter: RldxAdapter, modality: Modality
) -> ModelMeta:
    """Return what the model declares."""
    from_platform = options.history == "platform"
    return ModelMeta(
        kind="vla",
        backend="rldx",
        checkpoint=source.checkpoint,
        control=control_spec(adapter.space),
        camera_roles=modality.camera_roles if from_platform else adapter.camera_roles,
        proprio_schema=modality.proprio_schema,
        action_horizon=modality.horizon,
        execute_steps=options.execute_steps,
        uses_sessions=True,
        prediction_timeout_s=options.timeout_s + _OVERHEAD_S,
        provenance=source.provenance,
    )


def find_layout(
    client: RldxClient,
    layouts: tuple[bool, ...],
    adapter: RldxAdapter,
    modality: Modality,
    meta: ModelMeta,
    options: RldxOptions,
) -> bool:
    """Predict once on a blank scene; return whether the server takes flat names.

    It may compile first, hence the long patience. Raises `WorkerFailed` when it refuses.
    """
    # With the frames of earlier steps, whoever shows them later.
    complete = msgspec.structs.replace(meta, camera_roles=modality.camera_roles)
    native = adapter.encode(blank_observation(complete), modality)
    trial = NativeNames().of("trial")
    asked = {"reset_memory": [True], "session_ids": [trial]}
    refusals = []
    for is_flat in layouts:
        shown = flattened(native) if is_flat else native
        try:
            client.get_action(
                shown, asked, connection=client.connect(), timeout_s=options.start_timeout_s
            )
        except RpentBoxError as error:
            _forget(client, trial)
            if not isinstance(error, PredictionFailed):
                raise
            refusals.append(error.message)
        else:
            client.reset(trial)
            return is_flat
    raise WorkerFailed(
        "the RLDX server refuses what RoboCasa shows: " + "; ".join(refusals),
        hint="Is it the server of a checkpoint for RoboCasa? Its log has the traceback.",
    )


def _forget(client: RldxClient, session: str) -> None:
    """Let a server that has just failed forget a session, if it still can: it sweeps none."""
    try:
        client.reset(session, timeout_s=min(client.timeout_s, _FORGET_S))
    except RpentBoxError as error:
        _log.warning("the server may keep the session %s: %s", session, error.message)


def prefix_lengths(options: RldxOptions, horizon: int, longest: int | None) -> range | None:
    """Return what `rtc_prefix_len` may be; None without real-time chunking."""
    if options.rtc == "none":
        return None
    if options.rtc == "trained" and options.compile == "fullgraph":
        # The length is compiled into the graph.
        return range(options.rtc_delay, options.rtc_delay + 1)
    limit = min(options.execute_steps, horizon - options.execute_steps)
    if options.rtc == "trained" and longest is not None:
        limit = min(limit, longest)
    return range(1, limit + 1)


def _say_what_is_shown(modality: Modality, options: RldxOptions) -> None:
    earlier = [str(steps) for steps in modality.steps_ago if steps]
    if not earlier:
        return
    if options.history == "platform":
        _log.info(
            "the model looks back %s control steps; a platform without camera roles such as %s "
            "is refused (--history predictions does without, approximately)",
            ", ".join(earlier),
            modality.camera_roles[-1],
        )
    else:
        _log.warning(
            "frames of %s control steps ago are replaced by those of earlier predictions",
            ", ".join(earlier),
        )


def _token(path: str) -> str:
    if not path:
        return ""
    try:
        token = Path(path).read_text().strip()
    except OSError as error:
        raise BadOption(f"the token in {path} cannot be read: {error.strerror}") from error
    if not token:
        raise BadOption(f"{path} holds no token")
    return token
