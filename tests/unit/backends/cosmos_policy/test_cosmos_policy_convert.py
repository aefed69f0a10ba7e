# SPDX-License-Identifier: Apache-2.0
"""The converter: exact on honest files, and running nothing of dishonest ones."""

from __future__ import annotations

import collections
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from cosmos_policy_files import (
    INSTRUCTIONS,
    bits_of,
    blob,
    named,
    sizes,
    storage,
    tensor,
    text,
    write_pickled,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from rpent_box.backends.cosmos_policy.convert_embeddings import (
    convert,
    main,
    rounded_to_bfloat16,
)
from rpent_box.backends.cosmos_policy.embeddings import SHAPE, TextEmbeddings
from rpent_box.backends.cosmos_policy.tensor_pickle import read_tensors
from rpent_box.errors import BadCheckpoint, OutputError

SMALL = np.arange(8, dtype=np.uint16).reshape(1, 2, 4)


def pickled(tmp_path: Path) -> Path:
    tensors = {name: ("BF16", bits) for name, bits in bits_of(INSTRUCTIONS).items()}
    return write_pickled(tmp_path / "in.pkl", tensors)


def dictionary(value: bytes, key: bytes = text("a")) -> bytes:
    return b"\x80\x04}" + key + value + b"s."


def test_every_instruction_keeps_its_bits(tmp_path: Path) -> None:
    assert convert(pickled(tmp_path), tmp_path / "out.safetensors") == len(INSTRUCTIONS)
    found = TextEmbeddings.open(tmp_path / "out.safetensors")
    assert found.instructions == tuple(sorted(INSTRUCTIONS))
    for name, bits in bits_of(INSTRUCTIONS).items():
        embedding = found.find(name)
        assert embedding is not None
        np.testing.assert_array_equal(embedding.view(np.uint32) >> 16, bits)
        assert not (embedding.view(np.uint32) & 0xFFFF).any()


def test_float32_is_rounded_as_the_model_would_round_it(tmp_path: Path) -> None:
    numbers = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)
    source = write_pickled(tmp_path / "in.pkl", {"a": ("F32", numbers)})
    convert(source, tmp_path / "out.safetensors")
    found = TextEmbeddings.open(tmp_path / "out.safetensors").find("a")
    assert found is not None
    assert (np.abs(found - numbers) <= np.abs(numbers) * 2.0**-8).all()


@pytest.mark.parametrize(
    ("number", "bits"),
    [
        (1.0, 0x3F80),
        (-2.5, 0xC020),
        (0.0, 0x0000),
        (-0.0, 0x8000),
        (1.0 + 2**-8, 0x3F80),  # a tie goes to the even neighbour, below
        (1.0 + 3 * 2**-8, 0x3F82),  # and here above
        (1.0 + 2**-8 + 2**-20, 0x3F81),
        (3.4e38, 0x7F80),  # above the largest bfloat16
    ],
)
def test_rounding_to_bfloat16(number: float, bits: int) -> None:
    assert rounded_to_bfloat16(np.array([number], np.float32))[0] == bits


@given(st.lists(st.floats(width=32), min_size=1, max_size=64))
def test_rounding_gives_the_nearest_bfloat16(numbers: list[float]) -> None:
    given_ = np.array(numbers, np.float32)
    bits = rounded_to_bfloat16(given_)
    back = (bits.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(np.isnan(back), np.isnan(given_))
    for step in (-1, 1):
        neighbour = ((bits.astype(np.int64) + step).clip(0, 0xFFFF).astype(np.uint32) << 16).view(
            np.float32
        )
        fit = np.isfinite(given_) & np.isfinite(back) & np.isfinite(neighbour)
        fit &= np.sign(neighbour) == np.sign(back)
        nearer = np.abs(back[fit].astype(np.float64) - given_[fit])
        assert (nearer <= np.abs(neighbour[fit].astype(np.float64) - given_[fit])).all()


def test_the_output_says_what_it_was_made_from(tmp_path: Path) -> None:
    from rpent_box.backends.tensor_files import read_safetensors_header

    source = pickled(tmp_path)
    convert(source, tmp_path / "out.safetensors")
    metadata = read_safetensors_header(tmp_path / "out.safetensors").metadata
    assert metadata["source"] == "in.pkl"
    assert len(metadata["source_sha256"]) == 64


def test_a_slice_of_a_larger_storage_is_read(tmp_path: Path) -> None:
    path = tmp_path / "in.pkl"
    body = tensor("BF16", np.arange(20, dtype=np.uint16), offset=4, shape=(1, 2, 4))
    path.write_bytes(dictionary(body))
    np.testing.assert_array_equal(read_tensors(path)["a"].numbers, SMALL + 4)


class Malicious:
    """Writes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def __reduce__(self):
        return (Path.touch, (self._target,))


@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_pickle_is_refused_and_nothing_of_it_runs(
    tmp_path: Path, protocol: int, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "ran"
    source = tmp_path / "in.pkl"
    source.write_bytes(pickle.dumps({"open the drawer": Malicious(mark)}, protocol))
    assert main([str(source), str(tmp_path / "out.safetensors")]) == 2
    assert not mark.exists()
    assert not (tmp_path / "out.safetensors").exists()
    assert "error:" in capsys.readouterr().err
    # The same bytes are dangerous in Python's own reader.
    pickle.loads(source.read_bytes())  # noqa: S301
    assert mark.exists()


def test_a_malicious_storage_inside_of_a_tensor_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    honest = storage("BF16", SMALL)
    inner = pickle.dumps(Malicious(mark), 2)
    body = (
        named("torch._utils", "_rebuild_tensor_v2")
        + b"("
        + named("torch.storage", "_load_from_bytes")
        + blob(honest[: honest.index(b"}")] + inner)
        + b"\x85R"
    )
    (tmp_path / "in.pkl").write_bytes(dictionary(body))
    with pytest.raises(BadCheckpoint, match="Nothing in it was run"):
        read_tensors(tmp_path / "in.pkl")
    assert not mark.exists()


REFUSED = {
    "a shell": dictionary(named("os", "system") + b"(" + text("true") + b"tR"),
    "an old spelling": b"cos\nsystem\n(" + text("true") + b"tR.",
    "a built-in": dictionary(named("builtins", "eval") + b"(" + text("1") + b"tR"),
    "an attribute of an allowed module": dictionary(named("torch.storage", "os") + b")R"),
    "a dotted attribute": dictionary(named("collections", "OrderedDict.__class__") + b")R"),
    "another split of an allowed name": dictionary(named("torch", "load") + b")R"),
    "an instance": b"(icollections\nOrderedDict\n.",
    "building state": dictionary(named("collections", "OrderedDict") + b")R}b"),
    "a new object": dictionary(named("collections", "OrderedDict") + b")\x81"),
    "a registered extension": b"\x80\x02\x82\x01.",
    "something outside": dictionary(text("x") + b"Q"),
    "calling a text": dictionary(text("os.system") + b")R"),
    "calling a type of storage": dictionary(named("torch", "BFloat16Storage") + b")R"),
    "hooks": dictionary(named("collections", "OrderedDict") + b"(" + text("hook") + b"tR"),
}


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED)
def test_all_that_is_not_a_tensor_is_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "in.pkl").write_bytes(raw)
    with pytest.raises(BadCheckpoint):
        read_tensors(tmp_path / "in.pkl")


DAMAGED = {
    "empty": b"",
    "no pickle": b"version",
    "cut": dictionary(tensor("BF16", SMALL))[:-1],
    "values left": b"\x80\x04}}.",
    "no value": b"\x80\x04.",
    "an unknown memory": b"\x80\x04h\x05.",
    "a huge memory": b"\x80\x04}r\xff\xff\xff\x7f.",
    "a list": b"\x80\x04].",
    "a key that is no text": dictionary(tensor("BF16", SMALL), key=b"K\x01"),
    "a value that is no tensor": dictionary(text("b")),
    "an unhashable key": dictionary(text("b"), key=b"}"),
    "beyond the storage": dictionary(tensor("BF16", SMALL, offset=1)),
    "before the storage": dictionary(tensor("BF16", SMALL, offset=-1)),
    "a shape beyond the storage": dictionary(tensor("BF16", SMALL, shape=(1, 2, 5))),
    "a negative shape": dictionary(tensor("BF16", SMALL, shape=(1, -2, 4))),
    "a stack that runs dry": b"\x80\x04\x86.",
    "an odd number of items": b"\x80\x04}(" + text("a") + b"u.",
}


@pytest.mark.parametrize("raw", DAMAGED.values(), ids=DAMAGED)
def test_damaged_files_are_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "in.pkl").write_bytes(raw)
    with pytest.raises(BadCheckpoint):
        convert(tmp_path / "in.pkl", tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.parametrize("told", [7, 9, -1])
def test_a_storage_of_another_length_than_it_tells_is_refused(tmp_path: Path, told: int) -> None:
    body = tensor("BF16", SMALL).replace(
        blob(storage("BF16", SMALL)), blob(storage("BF16", SMALL, numbers_told=told))
    )
    (tmp_path / "in.pkl").write_bytes(dictionary(body))
    with pytest.raises(BadCheckpoint, match="storage"):
        read_tensors(tmp_path / "in.pkl")


def test_a_storage_of_a_big_endian_machine_is_refused(tmp_path: Path) -> None:
    honest = storage("BF16", SMALL)
    swapped = honest.replace(b"little_endianq\x02\x88", b"little_endianq\x02\x89")
    assert swapped != honest
    body = tensor("BF16", SMALL).replace(honest, swapped)
    (tmp_path / "in.pkl").write_bytes(dictionary(body))
    with pytest.raises(BadCheckpoint, match="big-endian"):
        read_tensors(tmp_path / "in.pkl")


@pytest.mark.filterwarnings("ignore:invalid escape")
@settings(max_examples=300)
@given(st.data())
def test_no_change_of_a_byte_makes_anything_else_than_tensors(tmp_path_factory, data) -> None:
    raw = bytearray(dictionary(tensor("BF16", SMALL)))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("fuzz") / "in.pkl"
    path.write_bytes(bytes(raw))
    try:
        found = read_tensors(path)
    except BadCheckpoint:
        return
    assert all(isinstance(tensor.numbers, np.ndarray) for tensor in found.values())


def test_an_embedding_of_another_shape_is_refused(tmp_path: Path) -> None:
    source = write_pickled(tmp_path / "in.pkl", {"a": ("BF16", SMALL)})
    with pytest.raises(BadCheckpoint, match=r"\[1, 2, 4\] for 'a'; wanted \[1, 512, 1024\]"):
        convert(source, tmp_path / "out.safetensors")


@pytest.mark.parametrize("dtype", ["BF16", "F32"])
def test_an_embedding_that_is_not_finite_is_refused(tmp_path: Path, dtype: str) -> None:
    numbers = np.zeros(SHAPE, np.float32 if dtype == "F32" else np.uint16)
    numbers[0, 3, 5] = np.inf if dtype == "F32" else 0x7FC0
    source = write_pickled(tmp_path / "in.pkl", {"a": (dtype, numbers)})
    with pytest.raises(BadCheckpoint, match="not finite"):
        convert(source, tmp_path / "out.safetensors")


def test_a_name_that_the_format_keeps_for_itself_is_refused(tmp_path: Path) -> None:
    numbers = np.zeros(SHAPE, np.uint16)
    source = write_pickled(tmp_path / "in.pkl", {"__metadata__": ("BF16", numbers)})
    with pytest.raises(BadCheckpoint, match="cannot be the name"):
        convert(source, tmp_path / "out.safetensors")


def test_no_embedding_at_all_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.pkl").write_bytes(b"\x80\x04}.")
    with pytest.raises(BadCheckpoint, match="no embedding"):
        convert(tmp_path / "in.pkl", tmp_path / "out.safetensors")


def test_another_container_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.pkl").write_bytes(pickle.dumps(collections.Counter("aab")))
    with pytest.raises(BadCheckpoint, match=r"collections\.Counter"):
        read_tensors(tmp_path / "in.pkl")


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        convert(pickled(tmp_path), tmp_path / "missing" / "out.safetensors")


def test_the_output_is_replaced_whole_and_leaves_no_draft(tmp_path: Path) -> None:
    target = tmp_path / "out.safetensors"
    target.write_bytes(b"old")
    convert(pickled(tmp_path), target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.pkl", "out.safetensors"]
    assert len(TextEmbeddings.open(target).instructions) == len(INSTRUCTIONS)


LAUGHS = b"}" + b"q\x00h\x00\x86" * 64
"""A pair of pairs of pairs …: 64 deep, with 2**64 ends."""
DEEP = b"}" + b"\x85" * 100_000
BOMBS = {
    "bytes that are not there": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"x.",
    "a shape of zero strides": b"\x80\x04}"
    + text("a")
    + tensor("BF16", SMALL).replace(
        sizes((1, 2, 4)) + sizes((8, 4, 1)), sizes((2**30, 2**30, 4)) + sizes((0, 0, 1))
    )
    + b"s.",
    "laughs for a value": b"\x80\x04}" + text("a") + LAUGHS + b"s.",
    "laughs for a name": b"\x80\x04" + LAUGHS + text("a") + b"\x93.",
    "laughs for a shape": b"\x80\x04}"
    + text("a")
    + tensor("BF16", SMALL).replace(sizes((1, 2, 4)), LAUGHS, 1)
    + b"s.",
    "depth": b"\x80\x04}" + text("a") + DEEP + b"s.",
    "depth for a shape": b"\x80\x04}"
    + text("a")
    + tensor("BF16", SMALL).replace(sizes((1, 2, 4)), DEEP, 1)
    + b"s.",
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("raw", BOMBS.values(), ids=BOMBS)
def test_a_few_bytes_that_would_become_many_are_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "in.pkl"
    path.write_bytes(raw)
    with pytest.raises(BadCheckpoint):
        read_tensors(path)
