# SPDX-License-Identifier: Apache-2.0
"""Errors as data: what a `Fault` is made from, and what it becomes on the other side."""

from __future__ import annotations

from rpent_box.contracts.messages import Fault
from rpent_box.errors import RpentBoxError, from_code


def fault_from(error: RpentBoxError) -> Fault:
    """Return what travels in place of `error`."""
    return Fault(code=error.code, message=error.message, hint=error.hint, detail=error.detail)


def error_from(fault: Fault) -> RpentBoxError:
    """Return the error that the other side raised, of the same class."""
    return from_code(fault.code, fault.message, hint=fault.hint, detail=fault.detail)
