# SPDX-License-Identifier: Apache-2.0
"""What is asked of PyTorch, and what its answer means. tests/upstream asks PyTorch itself."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from cosmos_policy_files import write_torch_zip

from rpent_box.backends.cosmos_policy.weights import read_shapes, require_filled
from rpent_box.errors import BadCheckpoint

WEIGHTS = Path("w.pt")


class Tensor(NamedTuple):
    shape: tuple[int, ...]


class FakeTorch(SimpleNamespace):
    """Answers `load` with what it was made with, and keeps how it was asked."""

    def __init__(self, answer: object) -> None:
        super().__init__(Tensor=Tensor, serialization=self, answer=answer, asked={}, safe=[])

    @contextmanager
    def safe_globals(self, safe: list[type]) -> Iterator[None]:
        self.safe = safe
        yield
        self.safe = []

    def load(self, path: Path, **asked: Any) -> object:
        self.asked = {"path": path, "safe": list(self.safe), **asked}
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def fake_torch(monkeypatch: pytest.MonkeyPatch, answer: object) -> FakeTorch:
    torch = FakeTorch(answer)
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    return torch


class Network:
    """Has `parts`, and of these as buffers those that `buffers` names."""

    def __init__(self, parts: dict[str, object], buffers: tuple[str, ...] = ()) -> None:
        self._parts = parts
        self._buffers = buffers

    def state_dict(self) -> dict[str, object]:
        return self._parts

    def named_buffers(self) -> list[tuple[str, object]]:
        return [(name, self._parts[name]) for name in self._buffers]


def test_only_tensors_are_read_and_none_of_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_torch_zip(tmp_path / "w.pt", {"net.a": 1})
    torch = fake_torch(monkeypatch, {"net.a": Tensor((2, 3)), "net.a._extra_state": io.BytesIO()})
    assert read_shapes(path) == {"net.a": (2, 3)}
    assert torch.asked == {
        "path": path,
        "safe": [io.BytesIO],
        "map_location": "meta",
        "weights_only": True,
        "mmap": True,
    }


def test_a_file_in_the_older_format_is_not_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "w.pt"
    path.write_bytes(b"".join(pickle.dumps(part, 2) for part in (1, 2, 3, {"net.a": 1}, [])))
    torch = fake_torch(monkeypatch, {})
    assert read_shapes(path) == {}
    assert torch.asked["mmap"] is False


def test_what_pytorch_refuses_is_refused_with_its_words_and_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_torch_zip(tmp_path / "w.pt", {"net.a": 1})
    fake_torch(monkeypatch, pickle.UnpicklingError("GLOBAL posix.system was not an allowed global"))
    with pytest.raises(BadCheckpoint, match="nothing in them was run") as caught:
        read_shapes(path)
    assert "posix.system" in caught.value.detail
    assert f"torch.load('{path}', weights_only=False)" in caught.value.hint
    assert str(tmp_path / "w-tensors.pt") in caught.value.hint


def test_weights_that_are_no_names_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_torch_zip(tmp_path / "w.pt", [1])
    fake_torch(monkeypatch, [1])
    with pytest.raises(BadCheckpoint, match="hold a list"):
        read_shapes(path)


def test_weights_that_fill_the_network_are_taken() -> None:
    network = Network({"net.a": Tensor((2, 3)), "net.norm._extra_state": io.BytesIO()})
    require_filled(network, {"net.a": (2, 3), "net.more": (1,)}, WEIGHTS)


def test_counters_and_tables_may_be_missing() -> None:
    parts = {"net.a": Tensor((2,)), "net.accum_iteration": Tensor(()), "net.seq": Tensor((8,))}
    network = Network(parts, buffers=("net.accum_iteration", "net.seq"))
    require_filled(network, {"net.a": (2,), "net.seq": (9,)}, WEIGHTS)


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ({"net.a": (2, 3)}, "leave 1 of the network's 2 parts empty: net.b is missing"),
        ({}, "leave 2 of the network's 2 parts empty: net.a is missing; net.b is missing"),
        (
            {"net.a": (2, 3), "net.b": (5,)},
            r"leave 1 of the network's 2 parts empty: net.b is \[5\], wanted \[4\]",
        ),
    ],
)
def test_weights_that_leave_a_part_as_it_was_made_are_refused(
    stored: dict[str, tuple[int, ...]], told: str
) -> None:
    network = Network({"net.a": Tensor((2, 3)), "net.b": Tensor((4,))})
    with pytest.raises(BadCheckpoint, match=told):
        require_filled(network, stored, WEIGHTS)
