# SPDX-License-Identifier: Apache-2.0
"""Make a checkpoint: `python -m rpent_box.backends.mini_wam.export --training DIR --out DIR`.

Writes `mini_wam.onnx`, `mini_wam_future.onnx` and `mini_wam.json`, after comparing onnxruntime's
answers with PyTorch's.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from rpent_box.backends.mini_wam.adapter.encode import CAMERA_ROLES, IMAGE_SIZE
from rpent_box.backends.mini_wam.deploy import (
    ROUNDED_FROM,
    ExportedImagination,
    ExportedPolicy,
    to_codes,
)
from rpent_box.backends.mini_wam.manifest import (
    FUTURE_FILE,
    MANIFEST_FILE,
    STATISTICS_KEY,
    WEIGHTS_FILE,
    Manifest,
)
from rpent_box.backends.mini_wam.network import (
    ACTION_DIM,
    ACTION_HORIZON,
    FUTURE_SIZE,
    PROPRIO_DIM,
    WIDTH,
    MiniWamNetwork,
)
from rpent_box.backends.mini_wam.session import (
    FUTURE_INPUTS,
    FUTURE_OUTPUTS,
    POLICY_INPUTS,
    POLICY_OUTPUTS,
    OnnxSession,
)
from rpent_box.backends.mini_wam.text import TEXT_FEATURES
from rpent_box.backends.mini_wam.train import (
    NETWORK_FILE,
    RECORD_FILE,
    UNREADABLE,
    TrainingRecord,
)
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.errors import BadOption, RpentBoxError, WorkerFailed
from rpent_box.sim.results import remove_partials, write_atomically

OPSET = 17
TOLERANCE = 1e-4


def export(training: Path, out: Path) -> Manifest:
    """Write the checkpoint.

    Raises `BadOption` when `training` is not finished, and `OutputError`.
    """
    record, network = _read(training)
    remove_partials(out)
    hashes = {}
    for graph in graphs(network):
        with TemporaryDirectory() as folder:
            made = Path(folder) / graph.file
            write_onnx(graph, made, statistics_sha256=record.statistics.sha256())
            compare(graph, made)
            data = made.read_bytes()
        write_atomically(out / graph.file, data)
        hashes[graph.file] = hashlib.sha256(data).hexdigest()
    manifest = describe(record, hashes)
    data = msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"
    write_atomically(out / MANIFEST_FILE, data)
    return manifest


@dataclass(frozen=True)
class Graph:
    """One file of a checkpoint."""

    file: str
    module: torch.nn.Module
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def answer(self, values: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return PyTorch's outputs."""
        with torch.no_grad():
            given = self.module(*(torch.from_numpy(values[name]) for name in self.inputs))
        tensors = given if isinstance(given, tuple) else (given,)
        return {name: tensor.numpy() for name, tensor in zip(self.outputs, tensors, strict=True)}


def graphs(network: MiniWamNetwork) -> tuple[Graph, Graph]:
    """Return the two files: what acts, and what imagines."""
    policy = Graph(WEIGHTS_FILE, ExportedPolicy(network).eval(), POLICY_INPUTS, POLICY_OUTPUTS)
    future = Graph(FUTURE_FILE, ExportedImagination(network).eval(), FUTURE_INPUTS, FUTURE_OUTPUTS)
    return policy, future


def write_onnx(graph: Graph, path: Path, *, statistics_sha256: str) -> None:
    """Write a graph with its statistics' hash among its properties."""
    values = example(1)
    torch.onnx.export(
        graph.module,
        tuple(torch.from_numpy(values[name]) for name in graph.inputs),
        str(path),
        input_names=list(graph.inputs),
        output_names=list(graph.outputs),
        dynamic_axes={name: {0: "batch"} for name in (*graph.inputs, *graph.outputs)},
        opset_version=OPSET,
        dynamo=False,
    )
    model = onnx.load(str(path))
    store_rounded(model.graph)
    model.metadata_props.add(key=STATISTICS_KEY, value=statistics_sha256)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def store_rounded(graph: onnx.GraphProto) -> None:
    """Store each rounded layer's weights as int8 and scales, and what makes float32 of them.

    Not as `DequantizeLinear`, which onnxruntime keeps and would then compute in 8 bits: a cast and
    a product of constants it computes once, when it opens the file.
    """
    undo = []
    for stored in [one for one in graph.initializer if _is_rounded(one)]:
        codes, scales = to_codes(torch.from_numpy(numpy_helper.to_array(stored).copy()))
        name = stored.name
        graph.initializer.remove(stored)
        graph.initializer.extend(
            [
                numpy_helper.from_array(codes.numpy().astype(np.int8), f"{name}.codes"),
                numpy_helper.from_array(scales.numpy(), f"{name}.scales"),
            ]
        )
        undo += [
            helper.make_node("Cast", [f"{name}.codes"], [f"{name}.whole"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"{name}.whole", f"{name}.scales"], [name]),
        ]
    for node in reversed(undo):
        graph.node.insert(0, node)


def _is_rounded(stored: onnx.TensorProto) -> bool:
    return (
        stored.data_type == TensorProto.FLOAT
        and len(stored.dims) == 2
        and stored.dims[0] * stored.dims[1] >= ROUNDED_FROM
        and stored.name.endswith(".weight")
    )


def compare(graph: Graph, path: Path) -> float:
    """Return the largest difference between onnxruntime and PyTorch over three observations.

    Raises `WorkerFailed` when it is more than rounding.
    """
    values = example(3)
    inputs = {name: values[name] for name in graph.inputs}
    got = OnnxSession(path, threads=1).run(graph.outputs, inputs)
    wanted = graph.answer(values)
    worst = float(np.max([np.abs(got[name] - wanted[name]).max() for name in graph.outputs]))
    if not worst <= TOLERANCE:  # so that NaN is refused too
        raise WorkerFailed(f"{graph.file} differs from the trained network by {worst}")
    return worst


def example(batch: int) -> dict[str, NDArray[Any]]:
    """Return inputs of the right shapes, the same each time."""
    rng = np.random.default_rng(0)
    shape = (batch, len(CAMERA_ROLES), 3, IMAGE_SIZE, IMAGE_SIZE)
    words = rng.normal(size=(batch, TEXT_FEATURES)).astype(np.float32)
    return {
        "images": rng.integers(0, 256, shape, dtype=np.uint8),
        "proprio": rng.normal(size=(batch, PROPRIO_DIM)).astype(np.float32),
        "instruction": words / np.linalg.norm(words, axis=1, keepdims=True),
        "thought": rng.normal(size=(batch, WIDTH)).astype(np.float32),
        "actions": rng.normal(size=(batch, ACTION_HORIZON, ACTION_DIM)).astype(np.float32),
    }


def describe(record: TrainingRecord, hashes: dict[str, str]) -> Manifest:
    """Return the manifest; `hashes` are the files' SHA-256."""
    sources = record.sources
    lessons: Counter[str] = Counter()
    for source in sources:
        lessons.update(source.rows_by_lesson)
    return Manifest(
        platform="libero",
        action_space=LIBERO_OSC_DELTA.id,
        action_horizon=ACTION_HORIZON,
        camera_roles=CAMERA_ROLES,
        image_size=IMAGE_SIZE,
        future_size=FUTURE_SIZE,
        instructions=record.instructions,
        statistics=record.statistics,
        statistics_sha256=record.statistics.sha256(),
        weights_sha256=hashes[WEIGHTS_FILE],
        future_sha256=hashes[FUTURE_FILE],
        data={
            "datasets": "; ".join(f"{source.folder} {source.sha256}" for source in sources),
            "seeds": ", ".join(source.seed for source in sources),
            "episodes": str(sum(source.episodes for source in sources)),
            "rows": str(sum(source.rows for source in sources)),
            "rows_by_lesson": ", ".join(f"{name} {lessons[name]}" for name in sorted(lessons)),
            "rows_from_students": str(record.student_rows),
            "students": "; ".join(sorted({source.student for source in sources} - {""})),
        },
        training={
            **{name: str(value) for name, value in msgspec.structs.asdict(record.recipe).items()},
            **{f"held_out_{name}": str(value) for name, value in record.validation.items()},
        },
    )


def _read(training: Path) -> tuple[TrainingRecord, MiniWamNetwork]:
    try:
        record = msgspec.json.decode((training / RECORD_FILE).read_bytes(), type=TrainingRecord)
        network = MiniWamNetwork()
        network.load_state_dict(torch.load(training / NETWORK_FILE, weights_only=True))
    except FileNotFoundError as error:
        raise BadOption(
            f"{training} holds no finished training: {error.filename} is missing",
            hint="Finish it: python -m rpent_box.backends.mini_wam.train --data … --out …",
        ) from error
    except (msgspec.DecodeError, *UNREADABLE) as error:
        raise BadOption(f"{training} holds no training that can be read: {error}") from error
    return record, network.eval()


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and export."""
    parser = argparse.ArgumentParser(prog="export", description=__doc__)
    parser.add_argument("--training", required=True, help="the trainer's --out")
    parser.add_argument("--out", required=True, help="folder for the checkpoint")
    options = parser.parse_args(arguments)
    out = Path(options.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        manifest = export(Path(options.training), out)
    except (RpentBoxError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    size = sum((out / file).stat().st_size for file in (WEIGHTS_FILE, FUTURE_FILE))
    sys.stdout.write(f"{out}: {size / 1e6:.2f} MB, {manifest.weights_sha256}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
