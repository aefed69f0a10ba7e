# SPDX-License-Identifier: Apache-2.0
"""What a worker says when its model raised, or when time ran out."""

from __future__ import annotations

import traceback

from rpent_box.contracts.faults import fault_from
from rpent_box.contracts.messages import Fault
from rpent_box.errors import DeadlineExceeded, PredictionFailed, RpentBoxError, WorkerError
from rpent_box.worker.work import Prediction

MODEL_ERRORS = (Exception, SystemExit)
"""What a model's own code may raise. A library that calls exit() must not end the thread silently.
"""


def told(error: BaseException) -> str:
    """Return the error in words, without its traceback."""
    if isinstance(error, RpentBoxError):
        return str(error)
    return "".join(traceback.format_exception_only(error)).strip()


def traceback_of(error: BaseException) -> str:
    """Return the whole traceback as text."""
    return "".join(traceback.format_exception(error))


def model_fault(error: BaseException) -> Fault:
    """A refusal of our own kind travels as it is; anything else is a failed prediction."""
    if isinstance(error, RpentBoxError):
        return fault_from(error)
    return _fault(PredictionFailed.code, f"the model raised {told(error)}", error)


def unexpected_fault(error: BaseException) -> Fault:
    """Return what a client is told when its request met a fault of the worker's own."""
    return _fault(WorkerError.code, f"the worker could not handle this: {told(error)}", error)


def expired(work: Prediction, now: float) -> DeadlineExceeded:
    """Return the error for work that came to its deadline inside the worker."""
    allowed_s = work.deadline - work.received
    return DeadlineExceeded(
        f"the worker could not answer within {allowed_s:.3g} s: "
        f"{now - work.received:.3g} s have passed since it received the request",
        hint="Allow more with --prediction-timeout, or ask this worker from fewer simulators.",
    )


def _fault(code: str, message: str, error: BaseException) -> Fault:
    return Fault(
        code=code,
        message=message,
        hint="The worker lives on. Its log has the traceback; --verbose shows it here.",
        detail=traceback_of(error),
    )
