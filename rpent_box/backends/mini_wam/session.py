# SPDX-License-Identifier: Apache-2.0
"""The network as onnxruntime runs it. The only importer of onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rpent_box.errors import WorkerFailed

POLICY_INPUTS = ("images", "proprio", "instruction")
POLICY_OUTPUTS = ("actions", "value", "thought")
FUTURE_INPUTS = ("thought", "actions", "images")
FUTURE_OUTPUTS = ("future",)

Arrays: TypeAlias = Mapping[str, NDArray[Any]]


class Session(Protocol):
    """A network that can be run."""

    def run(self, outputs: Sequence[str], inputs: Arrays) -> dict[str, NDArray[np.float32]]:
        """Return the named outputs."""


class OnnxSession:
    """onnxruntime on the CPU."""

    def __init__(self, weights: Path, *, threads: int) -> None:
        onnxruntime = _import_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(weights), options, providers=["CPUExecutionProvider"]
        )

    @property
    def properties(self) -> dict[str, str]:
        """The text properties stored in the weights file."""
        return dict(self._session.get_modelmeta().custom_metadata_map)

    def run(self, outputs: Sequence[str], inputs: Arrays) -> dict[str, NDArray[np.float32]]:
        values = self._session.run(list(outputs), dict(inputs))
        return dict(zip(outputs, values, strict=True))


def _import_onnxruntime() -> Any:  # noqa: ANN401 - onnxruntime is untyped
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise WorkerFailed(
            "mini-wam runs in onnxruntime, which is not installed here",
            hint="Install it: pip install 'rpent-box[mini-wam]'",
        ) from error
    return onnxruntime
