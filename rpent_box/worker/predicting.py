# SPDX-License-Identifier: Apache-2.0
"""One batch through the model: what is refused before it, what is checked after it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.faults import fault_from
from rpent_box.contracts.messages import Fault, Predicted
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk
from rpent_box.errors import BadActions, RpentBoxError
from rpent_box.worker.backend import Backend, BatchingBackend
from rpent_box.worker.exchange import predicted_from
from rpent_box.worker.failure import MODEL_ERRORS, expired, model_fault
from rpent_box.worker.work import Answer, Errand, Prediction

Measured: TypeAlias = Callable[[Sequence[Prediction], float, float], None]
"""Is told of each inference that did not fail: of what, and from when to when."""

_log = logging.getLogger("rpent_box.worker")


def _unmeasured(_: Sequence[Prediction], __: float, ___: float) -> None:
    """Nobody wants to know."""


def predict_all(
    backend: Backend,
    meta: ModelMeta,
    batch: list[Prediction],
    measured: Measured = _unmeasured,
) -> list[Answer]:
    """Answer every prediction of `batch`, each with its chunk or with why there is none."""
    began = time.monotonic()
    answers = []
    sound = []
    for prediction in batch:
        refusal = _refusal(prediction, began)
        if refusal is None:
            sound.append(prediction)
        else:
            answers.append(_answer(prediction, refusal))
    results = _infer(backend, meta, sound, measured)
    ended = time.monotonic()
    for prediction, result in zip(sound, results, strict=True):
        checked = _checked(prediction, result, meta, began=began, ended=ended)
        answers.append(_answer(prediction, checked))
    return answers


def run_errand(backend: Backend, errand: Errand) -> list[Answer]:
    """Run a session operation; empty when nobody waits for its answer."""
    result = None
    try:
        errand.run(backend)
    except MODEL_ERRORS as error:
        _log.exception("a session operation failed")
        result = model_fault(error)
    if errand.request_id is None:
        return []
    return [Answer(connection=errand.connection, request_id=errand.request_id, result=result)]


def _infer(
    backend: Backend, meta: ModelMeta, batch: list[Prediction], measured: Measured
) -> list[ActionChunk | Fault]:
    """Return one result per prediction, in order."""
    if len(batch) > 1 and isinstance(backend, BatchingBackend):
        began = time.monotonic()
        try:
            chunks = backend.predict_batch([prediction.input for prediction in batch])
            if len(chunks) != len(batch):
                raise BadActions(
                    f"{meta.backend} returned {len(chunks)} chunks for {len(batch)} observations"
                )
        except MODEL_ERRORS as error:
            _log.exception("a batch of %d failed", len(batch))
            if meta.uses_sessions:  # part of the sessions may have moved on: do not ask twice
                return [model_fault(error)] * len(batch)
            return _infer_again(backend, batch, error, time.monotonic() - began, measured)
        measured(batch, began, time.monotonic())
        return list(chunks)
    return [_infer_one(backend, prediction, measured) for prediction in batch]


def _infer_again(
    backend: Backend,
    batch: list[Prediction],
    error: BaseException,
    failing_s: float,
    measured: Measured,
) -> list[ActionChunk | Fault]:
    """Ask for each of a failed batch alone, so that one bad observation spoils no other.

    Only while it has as much time left as failing has taken so far: a service that did not answer
    the batch for its whole timeout may do so again for each, and nobody would wait for that.
    """
    results: list[ActionChunk | Fault] = []
    for prediction in batch:
        began = time.monotonic()
        if prediction.deadline - began < failing_s:
            results.append(_refusal(prediction, began) or model_fault(error))
            continue
        result = _infer_one(backend, prediction, measured)
        if isinstance(result, Fault):
            failing_s = max(failing_s, time.monotonic() - began)
        results.append(result)
    return results


def _infer_one(backend: Backend, prediction: Prediction, measured: Measured) -> ActionChunk | Fault:
    # Those before it, or the batch that failed, may have taken all the time that this one had.
    began = time.monotonic()
    refusal = _refusal(prediction, began)
    if refusal is not None:
        return refusal
    try:
        chunk = backend.predict(prediction.input)
    except MODEL_ERRORS as error:
        _log.exception("a prediction failed")
        return model_fault(error)
    measured([prediction], began, time.monotonic())
    return chunk


def _refusal(prediction: Prediction, now: float) -> Fault | None:
    """Return why a prediction is not worth making any more."""
    if now >= prediction.deadline:
        return fault_from(expired(prediction, now))
    try:
        prediction.recheck()
    except RpentBoxError as error:
        return fault_from(error)
    return None


def _checked(
    prediction: Prediction,
    result: ActionChunk | Fault,
    meta: ModelMeta,
    *,
    began: float,
    ended: float,
) -> ActionChunk | Fault:
    """Return the chunk with its timings, or why it must not be executed."""
    if isinstance(result, Fault):
        return result
    if ended >= prediction.deadline:
        return fault_from(expired(prediction, ended))
    try:
        prediction.recheck()
        _require_chunk(result, meta)
    except RpentBoxError as error:
        return fault_from(error)
    timings_s = {"queue": began - prediction.received, **result.timings_s}
    adapters_s = timings_s.get("encode", 0.0) + timings_s.get("decode", 0.0)
    timings_s.setdefault("infer", max(0.0, ended - began - adapters_s))
    return msgspec.structs.replace(result, timings_s=timings_s)


def _require_chunk(result: object, meta: ModelMeta) -> None:
    """Raise `BadActions` for anything that must not be executed, whatever its type."""
    if not isinstance(result, ActionChunk) or not isinstance(result.actions, np.ndarray):
        raise BadActions(
            f"{meta.backend} returned {type(result).__name__}; wanted an ActionChunk of an array"
        )
    try:
        _require_plain(result, meta)
        check_actions(result, meta)
        # As the client will read it: what cannot travel must not get as far as the socket.
        msgspec.msgpack.decode(msgspec.msgpack.encode(predicted_from(result)), type=Predicted)
    except (msgspec.MsgspecError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise BadActions(
            f"{meta.backend} returned what cannot be sent: {error}",
        ) from error


def _require_plain(chunk: ActionChunk, meta: ModelMeta) -> None:
    for name, fact in chunk.metadata.items():
        # Exact types: numpy's scalars pass for numbers in Python, but cannot be encoded.
        if type(fact) not in (bool, int, float, str):
            raise BadActions(
                f"{meta.backend} returned metadata {name} of type {type(fact).__name__}; wanted "
                "bool, int, float or str"
            )


def _answer(prediction: Prediction, result: ActionChunk | Fault) -> Answer:
    return Answer(connection=prediction.connection, request_id=prediction.request_id, result=result)
