# SPDX-License-Identifier: Apache-2.0
"""The inferring thread: loads the model, warms it up, and answers what the queue holds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk
from rpent_box.errors import RpentBoxError
from rpent_box.worker.backend import Backend, BackendSpec, BatchingBackend
from rpent_box.worker.declaration import require_sound_meta
from rpent_box.worker.failure import MODEL_ERRORS, told, traceback_of
from rpent_box.worker.predicting import predict_all, run_errand
from rpent_box.worker.queue import WorkQueue
from rpent_box.worker.status import Status
from rpent_box.worker.tally import Tally
from rpent_box.worker.warm_up import warm_up
from rpent_box.worker.work import Answer, Errand, Prediction, Work

Say: TypeAlias = Callable[[str], None]
LoadBackend: TypeAlias = Callable[[Say], Backend]

_log = logging.getLogger("rpent_box.worker")


class InferringThread:
    """Owns the backend: nothing of it is ever called from another thread."""

    def __init__(
        self,
        *,
        load: LoadBackend,
        spec: BackendSpec,
        queue: WorkQueue,
        status: Status,
        tally: Tally,
        answer: Callable[[list[Answer]], None],
        max_batch: int | None,
        checkpoint_files: CheckpointManifest | None = None,
        facts: Mapping[str, str] | None = None,
    ) -> None:
        self._load = load
        self._spec = spec
        self._queue = queue
        self._status = status
        self._tally = tally
        self._answer = answer
        self._max_batch = max_batch
        self._checkpoint_files = checkpoint_files
        self._facts = facts or {}
        self._thread = threading.Thread(target=self._run, name="infer", daemon=True)
        self.meta: ModelMeta | None = None
        """None until the model is loaded."""

    def start(self) -> None:
        """Begin to load."""
        self._thread.start()

    def is_alive(self) -> bool:
        """Tell whether the thread still runs."""
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread to end; False when it has not."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        backend = self._open()
        if backend is None:
            return
        try:
            self._serve(backend)
        except BaseException as error:  # noqa: BLE001 - this thread must not end without a word
            _log.critical("the inferring thread ends", exc_info=error)
            self._status.become("failed", reason=told(error), detail=traceback_of(error))
        finally:
            _close(backend)

    def _open(self) -> Backend | None:
        """Load and warm up; None when that failed, after saying so."""
        self._status.become("loading")
        backend = None
        try:
            backend = self._load(self._status.say)
            meta = self._declared(backend)
            self._status.become("warming")
            self._warm_up(backend, meta)
        except MODEL_ERRORS as error:
            _log_failed_load(error)
            self._status.become("failed", reason=told(error), detail=traceback_of(error))
            if backend is not None:
                _close(backend)
            return None
        self.meta = meta
        self._tally.start()
        self._status.become("ready")
        return backend

    def _declared(self, backend: Backend) -> ModelMeta:
        """Return the backend's meta, with what only its worker knows.

        That is the batch size that it really takes, and so whether batches show in its actions, and
        what its owner told it.
        """
        meta = backend.meta
        require_sound_meta(meta, self._spec)
        limit = meta.max_batch if isinstance(backend, BatchingBackend) else 1
        if self._max_batch is not None:
            limit = min(limit, self._max_batch)
        return msgspec.structs.replace(
            meta,
            max_batch=limit,
            batch_invariant=limit == 1 or meta.batch_invariant,
            checkpoint_files=self._checkpoint_files,
            provenance={**meta.provenance, **self._facts},
        )

    def _warm_up(self, backend: Backend, meta: ModelMeta) -> None:
        try:
            took_s = warm_up(backend, meta)
        except MODEL_ERRORS:
            # A blank scene is no observation of a real robot: a model may refuse it and be sound.
            _log.warning("could not warm up on a blank scene; serving all the same", exc_info=True)
        else:
            _log.info("first prediction took %.3f s", took_s)

    def _serve(self, backend: Backend) -> None:
        if self.meta is None:
            raise RuntimeError("serving before the model declared itself")
        while work := self._queue.take(self.meta.max_batch):
            self._tally.enter("busy")
            first = work[0]
            if isinstance(first, Errand):
                answers = run_errand(backend, first)
            else:
                answers = self._predict(backend, self.meta, work)
            self._tally.enter("idle")
            self._answer(answers)

    def _predict(self, backend: Backend, meta: ModelMeta, work: list[Work]) -> list[Answer]:
        batch = [item for item in work if isinstance(item, Prediction)]
        answers = predict_all(backend, meta, batch, self._measured)
        served = sum(1 for answer in answers if isinstance(answer.result, ActionChunk))
        self._tally.answered(served=served, refused=len(answers) - served)
        return answers

    def _measured(self, batch: Sequence[Prediction], began: float, ended: float) -> None:
        self._tally.inferred(ended - began, [began - one.received for one in batch])
        self._queue.inferred(len(batch), ended - began)


def _log_failed_load(error: BaseException) -> None:
    """A refusal of our own says enough in words; for anything else the traceback is the news."""
    if isinstance(error, RpentBoxError):
        _log.error("the model could not be loaded: %s", error)
        _log.debug("where it was refused", exc_info=error)
    else:
        _log.error("the model could not be loaded", exc_info=error)


def _close(backend: Backend) -> None:
    try:
        backend.close()
    except MODEL_ERRORS:
        _log.exception("the model did not close cleanly")
