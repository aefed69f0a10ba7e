# SPDX-License-Identifier: Apache-2.0
"""The whole backend, its client included, before a service that computes nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cosmos3_parts import loaded, write_statistics
from numpy.typing import NDArray
from sglang_stub import SGLangStub

from rpent_box.worker.backend import Backend


@contextmanager
def fake_backend(
    platform: str, *, spoil: Callable[[NDArray[Any]], NDArray[Any]] = lambda raw: raw
) -> Iterator[Backend]:
    """Yield the backend of `platform`; the stub that it asks ends with the block.

    `spoil` is applied to each of the stub's chunks [horizon, columns] before it is sent.
    """
    with tempfile.TemporaryDirectory() as folder, SGLangStub() as stub:
        stub.spoil = spoil
        backend = loaded(stub, write_statistics(Path(folder)), platform=platform)
        try:
            yield backend
        finally:
            backend.close()
