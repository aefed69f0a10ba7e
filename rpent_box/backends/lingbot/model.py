# SPDX-License-Identifier: Apache-2.0
"""The connected model, as a backend."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.backends.adapter import Adapter, adapter_for
from rpent_box.backends.lingbot.adapter import ADAPTERS, Request
from rpent_box.backends.lingbot.checkpoint import inspect
from rpent_box.backends.lingbot.connection import Connection, ServerAddress, parse_address
from rpent_box.backends.lingbot.greeting import read_greeting
from rpent_box.backends.lingbot.options import LingbotOptions
from rpent_box.backends.lingbot.own_server import answers, start_server
from rpent_box.backends.noise import noise_seed
from rpent_box.backends.request_options import refuse_unknown_options
from rpent_box.backends.stages import StageClock
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk
from rpent_box.errors import (
    BadActions,
    BadOption,
    DeadlineExceeded,
    PredictionFailed,
    RpentBoxError,
    WorkerFailed,
)
from rpent_box.worker.backend import LoadContext, PredictionInput

DYING_S = 0.2
"""How long a server that hangs up may still take to end."""
MARGIN_S = 30.0
"""What a client should allow besides the server's own time."""


class Server(Struct, frozen=True, kw_only=True):
    """The server that answers."""

    address: ServerAddress
    checkpoint: str
    """What it has loaded, in a word."""
    provenance: dict[str, str]
    takes_seeds: bool
    """It is ours: its noise can be seeded for each question."""
    require_alive: Callable[[], None] = lambda: None
    """Raises `ProgramDied` when it is ours and has ended."""
    end: Callable[[], None] = lambda: None
    """Ends it when it is ours; may be called twice."""


class Lingbot:
    """Asks a LingBot server.

    The server's policy keeps nothing of one question for the next (LingbotVLAServer.infer in the
    package's deploy/lingbot_vla_policy.py), apart from the state of its noise, so that one
    connection serves all sessions, and sessions need no memory here.
    """

    def __init__(
        self, server: Server, adapter: Adapter[int, Request], options: LingbotOptions
    ) -> None:
        """Connect. Raises `IncompatibleWorker` for another model, or what connecting does."""
        self._server = server
        self._adapter = adapter
        self._options = options
        self._connection: Connection | None = None
        use_length = self._connected()[1]
        self._meta = describe(server, adapter, options, use_length)

    @property
    def meta(self) -> ModelMeta:
        return self._meta

    def predict(self, request: PredictionInput) -> ActionChunk:
        """Ask for one chunk. Raises `BadOption`, `BadActions`, and what `Connection.ask` does."""
        refuse_unknown_options(request.options, backend="lingbot")
        clock = StageClock()
        steps = self._options.execute_steps
        question = self._adapter.encode(request.observation, steps)
        metadata: dict[str, float | int | str | bool] = {}
        if self._server.takes_seeds:
            seed = noise_seed(self._options.seed, request.episode)
            question["seed"] = seed
            metadata["noise_seed"] = seed
        clock.ended("encode")
        answer = self._ask(question)
        clock.ended("infer")
        actions = self._adapter.decode(_output(answer), steps)
        return ActionChunk(
            actions=actions,
            metadata=metadata,
            timings_s=clock.ended("decode"),
        )

    def reset(self, session: str) -> None:
        """Tell the server that an episode begins. Raises what `Connection.ask` does."""
        question: dict[str, Any] = {"reset": True}
        if self._options.robo_name:
            question["robo_name"] = self._options.robo_name
        self._ask(question)

    def drop(self, session: str) -> None:
        """Nothing to free."""

    def close(self) -> None:
        """Hang up, and end the server if it is ours."""
        try:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        finally:
            self._server.end()

    def _ask(self, question: dict[str, Any]) -> dict[Any, Any]:
        try:
            return self._connected()[0].ask(question)
        except (PredictionFailed, DeadlineExceeded):
            self._connection = None
            # Why it does not answer is told best by its own last words.
            self._server.require_alive()
            raise

    def _connected(self) -> tuple[Connection, int]:
        """Return a connection to the right model, and how many steps it answers with."""
        options = self._options
        if self._connection is not None and not self._connection.is_open:
            # It was lost while nobody asked: that costs no question.
            self._connection = None
        if self._connection is None:
            self._connection = Connection(
                self._server.address,
                connect_timeout_s=options.connect_timeout_s,
                reply_timeout_s=options.reply_timeout_s,
            )
        connection = self._connection
        try:
            # Again after each loss: another server may have taken the address meanwhile.
            use_length = read_greeting(
                connection.greeting,
                execute_steps=options.execute_steps,
                where=self._server.address.url,
            )
        except RpentBoxError:
            connection.close()
            self._connection = None
            raise
        return connection, use_length


def load(options: LingbotOptions, context: LoadContext) -> Lingbot:
    """Borrow the server that the options name, or start one from the checkpoint.

    That both exclude each other is seen before (`worker.needs`).
    Raises `BadOption` and `BadCheckpoint` before anything is started; `WorkerFailed` without a
    server; `IncompatibleWorker` for a server of another model; `ProgramDied` and `StartTimeout`.
    """
    adapter = adapter_for(ADAPTERS, context.platform, backend="lingbot")
    if options.service:
        context.say(f"connecting to {options.service}")
        return _connect(_borrowed(options), adapter, options)
    if context.checkpoint is None:
        raise BadOption(
            "lingbot has neither a checkpoint nor a server",
            hint="Give one of: --checkpoint DIR, --service ws://HOST:PORT",
        )
    return _start(Path(context.checkpoint), adapter, options, context)


def describe(
    server: Server, adapter: Adapter[int, Request], options: LingbotOptions, use_length: int
) -> ModelMeta:
    """Return what the model declares."""
    return ModelMeta(
        kind="vla",
        backend="lingbot",
        checkpoint=server.checkpoint,
        control=control_spec(adapter.space),
        camera_roles=adapter.camera_roles,
        proprio_schema=dict(adapter.proprio_schema),
        action_horizon=use_length,
        execute_steps=options.execute_steps,
        prediction_timeout_s=options.connect_timeout_s + options.reply_timeout_s + MARGIN_S,
        provenance=server.provenance,
    )


def _borrowed(options: LingbotOptions) -> Server:
    address = parse_address(options.service)
    return Server(
        address=address,
        checkpoint=f"served at {address.url}",
        provenance={
            "service": address.url,
            "weights": "whatever that server has loaded",
            "noise": "drawn by that server from one generator for all who ask it: not repeatable",
        },
        takes_seeds=False,
    )


def _start(
    checkpoint: Path, adapter: Adapter[int, Request], options: LingbotOptions, context: LoadContext
) -> Lingbot:
    context.say("checking the checkpoint")
    found = inspect(options, checkpoint, context.platform)
    with ExitStack() as resources:
        running = resources.enter_context(
            start_server(checkpoint, options, horizon=int(found.facts["action_horizon"]))
        )
        where = running.wait_ready(answers, timeout_s=options.start_timeout_s, say=context.say)
        server = Server(
            address=ServerAddress(where.host, where.port),
            checkpoint=checkpoint.name,
            provenance={
                **found.facts,
                "seed": str(options.seed),
                "noise": "seeded from the seed, the episode and the chunk",
            },
            takes_seeds=True,
            require_alive=partial(running.require_alive, grace_s=DYING_S),
            end=running.close,
        )
        context.say("connecting")
        backend = _connect(server, adapter, options)
        resources.pop_all()  # From here on the backend ends it.
    return backend


def _connect(server: Server, adapter: Adapter[int, Request], options: LingbotOptions) -> Lingbot:
    try:
        return Lingbot(server, adapter, options)
    except (PredictionFailed, DeadlineExceeded) as error:
        raise WorkerFailed(error.message, hint=error.hint, detail=error.detail) from error


def _output(answer: dict[Any, Any]) -> NDArray[Any]:
    """Return the answer's actions, whatever their shape. Raises `BadActions`."""
    action = answer.get("action")
    if not isinstance(action, np.ndarray):
        came = (
            type(action).__name__ if "action" in answer else f"only {', '.join(map(str, answer))}"
        )
        raise BadActions(f"the LingBot server answered with no action array, but {came}")
    return action
