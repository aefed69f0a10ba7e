# SPDX-License-Identifier: Apache-2.0
"""What a model must offer to be served. A backend is a folder with one `BackendSpec`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from rpent_box.contracts.checkpoint import Inspection
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk, Observation

Device: TypeAlias = Literal["cpu", "cuda"]


class PredictionInput(Struct, frozen=True, kw_only=True):
    """One observation and whose it is.

    The images are read-only views into the client's ring: valid until `predict` returns. Copy what
    must live longer.
    """

    observation: Observation
    session: str
    """Names this connection's memory. Chosen by the worker; a client cannot forge it."""
    episode: EpisodeKey | None = None
    """Seed noise from this, so that two runs give the same actions."""
    options: dict[str, float | int | str | bool] = {}
    """From `VlaPredict`; refuse unknown keys with `BadOption`."""


class Backend(Protocol):
    """A loaded model. Called from one thread, never concurrently."""

    @property
    def meta(self) -> ModelMeta: ...

    def predict(self, request: PredictionInput) -> ActionChunk:
        """Return float32 [execute_steps, action_dim] in native units of `meta.control`.

        May fill `timings_s` with `encode`, `infer` and `decode`. Raise `BadActions` when the
        model's own output is unusable, before a transform hides it.
        """

    def reset(self, session: str) -> None:
        """Forget what `session` has shown. Called at each episode."""

    def drop(self, session: str) -> None:
        """Free what `session` holds: its client closed, died or was idle for too long."""

    def close(self) -> None:
        """Free the model. May be called twice."""


@runtime_checkable
class BatchingBackend(Protocol):
    """A backend that takes several observations at once, from different clients."""

    def predict_batch(self, requests: Sequence[PredictionInput]) -> list[ActionChunk]:
        """Return one chunk per request, in order; equal to `predict` one by one to 1e-5."""


@runtime_checkable
class InstructedBackend(Protocol):
    """A backend that knows some instructions; any other is slow, or refused."""

    @property
    def known_instruction(self) -> str:
        """One that it knows. The worker's first prediction, on a blank scene, is made with it."""


class LoadContext(Struct, frozen=True, kw_only=True):
    """What a backend may know about where it runs."""

    platform: str
    """The platform to serve: picks the adapter pair."""
    checkpoint: str | None
    """A folder or file, mounted read-only; None: the backend's built-in weights."""
    threads: int
    """CPU threads that the model may use."""
    device: Device = "cpu"
    """Where the model shall compute. `cuda` is the first GPU that this process may see."""
    say: Callable[[str], None]
    """Tell the worker's clients which phase of loading this is."""


class BackendSpec(Struct, frozen=True, kw_only=True):
    """What is known about a backend without loading it. Importing it imports no model framework."""

    name: str
    """As on the command line: `mini-wam`."""
    kind: Literal["vla", "wam"]
    summary: str
    options: type[Struct]
    """Typed options of this worker: a frozen Struct whose fields all have defaults.

    A field's help is the `description` of its `Annotated[..., msgspec.Meta(description=...)]`;
    field `cuda_device` becomes `--cuda-device`. See `rpent_box.options`.
    """
    load: Callable[[Any, LoadContext], Backend]
    """Import the framework and load the weights. The first argument is an instance of `options`."""
    platforms: tuple[str, ...]
    """Platforms that this backend has an adapter pair for."""
    action_spaces: tuple[str, ...]
    """The action spaces of those adapters: what `rpent-box list` matches."""
    aliases: tuple[str, ...] = ()
    """Other spellings, besides `_` for `-`."""
    needs_checkpoint: bool = True
    checkpoint_is: Literal["path", "name"] = "path"
    """`name`: the checkpoint names what a service has loaded; there is no such file here."""
    inspect: Callable[[Any, Path, str], Inspection] | None = None
    """Look at a checkpoint without a model framework: (options, path, platform) → what it is.

    Raises `BadCheckpoint` for what the model could not use: a missing or cut file, statistics that
    belong elsewhere, a layout of another platform. Called on the host before anything is started,
    and again by the backend's own `load`.
    """
    needs_gpu: bool = True
    variants: tuple[Literal["cpu"], ...] = ()
    """Image variants besides the default; `cpu` makes `--device cpu` possible."""
    needs_network: bool = False
    """True only for a backend that always speaks to a service outside of its container."""
    borrows: str = ""
    """The option that names a running service, e.g. `service`. Where it is given, the worker loads
    nothing: it takes no checkpoint and no GPU, and gets the host's network."""
    python: str = ""
    """The Python that the model's packages exist for, e.g. `3.11`; empty: any that we support."""
    memory: str = ""
    """What it takes, e.g. `16 GB of GPU memory`."""
    licence: str = ""
    """Of the code and of the weights."""
    non_commercial: bool = False
    """The weights may not be used commercially; `rpent-box list` says so."""
    proof: str = ""
    """How far this adapter has been proven, in one sentence, for `rpent-box list`."""
    env_fallbacks: dict[str, str] = {}
    """Environment variable → what it fills when not given: the launcher's `python` or `root`, or an
    option of this backend."""
