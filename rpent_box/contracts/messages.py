# SPDX-License-Identifier: Apache-2.0
"""Everything that is said between a client and a worker, as tagged msgspec structs.

The tags are the routes (`wam.predict`, `session.register`, …). One ZeroMQ message is one envelope
(`Request` or `Reply`, msgpack) and then, when the tensors do not travel through shared memory, one
raw frame per tensor in the order of `Payload.tensors`. Unknown fields are refused.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from rpent_box.contracts.meta import ModelMeta

State: TypeAlias = Literal["starting", "loading", "warming", "ready", "draining", "failed"]
"""A worker's life, in order; `failed` carries a reason."""


class Message(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every wire struct has in common."""


# --- tensors ------------------------------------------------------------------------------------


class TensorRef(Message, frozen=True, kw_only=True):
    """One array: where it starts in its slot, and how to read it."""

    name: str
    dtype: Literal["uint8", "float32"]
    shape: tuple[int, ...]
    offset: int = 0
    """Bytes from the start of the slot's data; 0 for a raw frame."""


class SlotRef(Message, frozen=True, kw_only=True):
    """One use of one slot of a ring."""

    segment: str
    """posix_ipc name, `/rpent-box.<box>.<client>`."""
    slot: int
    sequence: int
    """Even. The reader refuses the slot when its header holds another number."""


class Payload(Message, frozen=True, kw_only=True):
    """The bulky part of a message."""

    slot: SlotRef | None = None
    """None: each tensor is a raw frame behind the envelope."""
    tensors: tuple[TensorRef, ...] = ()


NO_PAYLOAD = Payload()


# --- requests -----------------------------------------------------------------------------------


class Hello(Message, tag="hello", frozen=True, kw_only=True):
    """The first message of a connection; anything else before it is refused."""

    protocol: int
    client: str
    """For logs and errors only; names nothing."""
    segment: str | None = None
    """The ring that this connection writes; None: tensors come as raw frames."""


class Healthz(Message, tag="healthz", frozen=True, kw_only=True):
    """Answered at all times, also while the model loads or infers, and before any hello."""


class GetFigures(Message, tag="worker.figures", frozen=True, kw_only=True):
    """Ask for the worker's counters; answered like `Healthz`, also before any hello."""


class GetWamMeta(Message, tag="wam.get_model_meta", frozen=True, kw_only=True):
    """Ask a world action model for its `ModelMeta`."""


class GetVlaMeta(Message, tag="vla.get_model_meta", frozen=True, kw_only=True):
    """Ask a vision-language-action model for its `ModelMeta`."""


class RegisterSession(Message, tag="session.register", frozen=True, kw_only=True):
    """Ask for memory of this connection's own. A connection has at most one session."""


class CloseSession(Message, tag="session.close", frozen=True, kw_only=True):
    """Drop this connection's session and its memory."""


class ResetSession(Message, tag="reset_session", frozen=True, kw_only=True):
    """Clear this connection's memory and keep its session."""


class WamReset(Message, tag="wam.reset", frozen=True, kw_only=True):
    """An episode begins: clear what the model remembers of this connection."""


class VlaReset(Message, tag="vla.reset", frozen=True, kw_only=True):
    """The same for a vision-language-action model."""


class EpisodeKey(Message, frozen=True, kw_only=True):
    """Identifies one prediction of a run, independent of order and of other simulators."""

    seed: int
    suite: str
    task: int
    episode: int
    """The init state that it started from: the same noise, whichever run or shard plays it."""
    chunk: int


class Predict(Message, frozen=True, kw_only=True):
    """Ask for one action chunk; the two kinds below are what travels."""

    instruction: str
    embodiment: str
    action_space: str
    proprio: dict[str, tuple[float, ...]]
    """Named vectors in SI units; float32 values."""
    payload: Payload
    """One tensor per camera role."""
    episode: EpisodeKey | None = None
    """Which moment of which episode: what seeds a model's noise, so that runs repeat."""
    release: tuple[SlotRef, ...] = ()
    """Result slots of earlier replies that this client has finished reading."""


class WamPredict(Predict, tag="wam.predict", frozen=True, kw_only=True):
    """One chunk from a world action model."""


class VlaPredict(Predict, tag="vla.predict", frozen=True, kw_only=True):
    """One chunk from a vision-language-action model."""

    options: dict[str, float | int | str | bool] = {}
    """Model-specific; the backend refuses what it does not know."""


class Shutdown(Message, tag="shutdown", frozen=True, kw_only=True):
    """End the worker after what it has queued. Refused over tcp."""


RequestBody: TypeAlias = (
    Hello
    | Healthz
    | GetFigures
    | GetWamMeta
    | GetVlaMeta
    | RegisterSession
    | CloseSession
    | ResetSession
    | WamReset
    | VlaReset
    | WamPredict
    | VlaPredict
    | Shutdown
)


class Request(Message, frozen=True, kw_only=True):
    """The envelope of a question."""

    id: int
    """Chosen by the client, rising; the reply carries it back."""
    timeout_s: float
    """How long the client will wait. A duration: clocks differ between machines."""
    body: RequestBody


# --- replies ------------------------------------------------------------------------------------


class Welcome(Message, tag="welcome", frozen=True, kw_only=True):
    """The answer to a hello."""

    protocol: int
    backend: str
    kind: Literal["vla", "wam"]
    state: State
    version: str
    """The worker's rpent-box version, for results."""


class Health(Message, tag="health", frozen=True, kw_only=True):
    """What a worker can say without asking its model."""

    state: State
    reason: str = ""
    """For `failed`: what happened; for `loading` and `warming`: the phase."""
    detail: str = ""
    """For `failed`: the traceback."""
    backend: str
    protocol: int
    queued: int = 0
    in_flight: int = 0
    sessions: int = 0
    uptime_s: float = 0.0


class Histogram(Message, frozen=True, kw_only=True):
    """How often a value fell where, since the worker was ready."""

    bounds: tuple[float, ...]
    """Upper bounds, rising; each is inclusive, as Prometheus has it."""
    counts: tuple[int, ...]
    """One per bound, and one for what is above the last; not cumulative."""
    total: float = 0.0
    """Sum of all values."""


class Figures(Message, tag="figures", frozen=True, kw_only=True):
    """What a worker has done since its model was ready. Times are in seconds and only grow.

    `ready_s` = `busy_s` + `gathering_s` + `idle_s`: one stopwatch, which is always in one of them.
    """

    ready_s: float = 0.0
    busy_s: float = 0.0
    """Inside the model, and in what encodes for it and decodes after it."""
    gathering_s: float = 0.0
    """Holding a batch open for company."""
    idle_s: float = 0.0
    """Nothing was asked."""
    served: int = 0
    """Predictions answered with a chunk."""
    refused: int = 0
    """Predictions answered with a fault."""
    batches: dict[int, int] = {}
    """Observations in one inference → how often."""
    infer_s: Histogram | None = None
    """Of each inference, of a whole batch. None: nothing was measured yet."""
    queue_s: Histogram | None = None
    """Of each prediction: from its arrival to the start of its inference."""
    max_batch: int = 1
    max_wait_ms: float = 0.0
    """How long a batch waits for company at present: tuned by the worker, or as it was told."""
    tuned: bool = False
    """The worker chooses `max_wait_ms` itself."""


class Meta(Message, tag="meta", frozen=True, kw_only=True):
    """The answer to a request for metadata."""

    meta: ModelMeta


class Done(Message, tag="done", frozen=True, kw_only=True):
    """It was done; there is nothing more to say."""


class Predicted(Message, tag="predicted", frozen=True, kw_only=True):
    """One action chunk."""

    actions: bytes
    """float32 little-endian, C order; `shape` says how many."""
    shape: tuple[int, int]
    """[execute_steps, action_dim]"""
    value: float | None = None
    metadata: dict[str, float | int | str | bool] = {}
    timings_s: dict[str, float] = {}
    """`queue`, `encode`, `infer`, `decode`."""
    payload: Payload = NO_PAYLOAD
    """Future observations, one tensor per camera role."""


class Fault(Message, tag="fault", frozen=True, kw_only=True):
    """An error instead of an answer; `errors.from_code` rebuilds it."""

    code: str
    message: str
    hint: str = ""
    detail: str = ""


ReplyBody: TypeAlias = Welcome | Health | Figures | Meta | Done | Predicted | Fault


class Reply(Message, frozen=True, kw_only=True):
    """The envelope of an answer."""

    id: int
    body: ReplyBody
