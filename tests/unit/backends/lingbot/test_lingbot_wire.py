# SPDX-License-Identifier: Apache-2.0
"""The service's frames, byte for byte as the package's own client and server write them."""

from __future__ import annotations

import hashlib
import math
import pickle
from contextlib import suppress

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from upstream_goldens import golden_json

from rpent_box.backends.lingbot.wire import BadFrame, pack, unpack


def exchanges(part):
    return [case for case in golden_json("wire_lingbot")["cases"] if part in case]


def meant(value):
    """Rebuild what a case's meaning describes; None where it is only a digest."""
    if isinstance(value, dict) and "ndarray" in value:
        if isinstance(value["ndarray"], dict):
            return None
        return np.array(value["ndarray"], np.dtype(value["dtype"])).reshape(value["shape"])
    if isinstance(value, dict) and "npgeneric" in value:
        return np.dtype(value["dtype"]).type(value["npgeneric"])
    if isinstance(value, dict):
        return {name: meant(part) for name, part in value.items()}
    return value


def agrees(value, meaning):
    if isinstance(meaning, dict) and isinstance(meaning.get("ndarray"), dict):
        digest = hashlib.sha256(value.tobytes()).hexdigest()
        assert (digest, value.dtype.str, list(value.shape)) == (
            meaning["ndarray"]["sha256"],
            meaning["dtype"],
            meaning["shape"],
        )
    elif isinstance(meaning, dict) and not {"ndarray", "npgeneric"} & set(meaning):
        assert value.keys() == meaning.keys()
        for name, part in meaning.items():
            agrees(value[name], part)
    else:
        wanted = meant(meaning)
        np.testing.assert_array_equal(value, wanted)
        if isinstance(wanted, np.ndarray | np.generic) and not isinstance(wanted, np.float64):
            assert (
                value.dtype.str == wanted.dtype.str
            )  # numpy's float64 is a plain float to msgpack


def test_requests_are_written_byte_for_byte_as_upstream_writes_them():
    seen = 0
    for case in exchanges("request_hex"):
        message = meant(case["sent_meaning"])
        if any(part is None and name != "none" for name, part in message.items()):
            # Only a digest is written down: unpacking and packing again must change nothing.
            message = unpack(bytes.fromhex(case["request_hex"]))
        assert pack(message).hex() == case["request_hex"], case["what"]
        seen += 1
    assert seen >= 3


def test_requests_and_answers_are_read_as_they_were_meant():
    for part, meaning in (("request_hex", "sent_meaning"), ("response_hex", "response_meaning")):
        for case in exchanges(part):
            agrees(unpack(bytes.fromhex(case[part])), case[meaning])


def plain_arrays():
    return arrays.array_shapes(min_dims=0, min_side=0, max_side=4).flatmap(
        lambda shape: arrays.arrays(
            st.one_of(
                arrays.boolean_dtypes(),
                arrays.integer_dtypes(endianness="="),
                arrays.unsigned_integer_dtypes(endianness="="),
                arrays.floating_dtypes(endianness="=", sizes=(16, 32, 64)),
            ),
            shape,
        )
    )


@settings(deadline=None)
@given(plain_arrays())
def test_an_array_comes_back_as_it_was_also_from_a_view(array):
    for sent in (array, array.T):
        came = unpack(pack({"a": sent}))["a"]
        assert came.dtype == sent.dtype
        np.testing.assert_array_equal(came, sent)
        assert came.flags.writeable


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(frame):
    with suppress(BadFrame):
        assert isinstance(unpack(frame), dict)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_frame_is_read_or_refused_and_nothing_else(data):
    frame = bytearray(pack({"action": np.ones((2, 16), np.float32), "server_timing": {"a": 1.5}}))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    with suppress(BadFrame):
        unpack(bytes(frame))


@pytest.mark.parametrize(
    "value",
    [
        np.array([object()]),
        np.array([1j]),
        np.array(["text"]),
        np.zeros(1, [("field", "f4")]),
        np.datetime64("2026-01-01"),
        {1, 2},
    ],
    ids=["object", "complex", "text", "record", "date", "set"],
)
def test_only_numbers_are_sent(value):
    with pytest.raises(TypeError, match="cannot be sent"):
        pack({"a": value})


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({b"dtype": "|O"}, "not accepted"),
        ({b"dtype": "<c8"}, "not accepted"),
        ({b"dtype": "f4,f4"}, "not accepted"),
        ({b"dtype": "nonsense"}, "no type of numbers"),
        ({b"dtype": None}, "no type of numbers"),
        ({b"data": b"123"}, "takes 8 bytes, not 3"),
        ({b"data": "12345678"}, "not str"),
        ({b"shape": [-2]}, "no shape"),
        ({b"shape": [True]}, "no shape"),
        ({b"shape": 2}, "no shape"),
        ({b"shape": [1 << 62, 1 << 62]}, "takes"),
    ],
)
def test_an_array_that_does_not_add_up_is_refused(changed, complaint):
    whole = {b"__ndarray__": True, b"data": bytes(8), b"dtype": "<f4", b"shape": [2]}
    assert unpack(msgpack.packb({"a": whole}))["a"].shape == (2,)
    with pytest.raises(BadFrame, match=complaint):
        unpack(msgpack.packb({"a": {**whole, **changed}}))


@pytest.mark.parametrize(
    ("number", "dtype"), [(2**63, "<i8"), ("many", "<f4"), ({}, "<i8"), (1, "|O"), (1, None)]
)
def test_a_number_that_its_type_cannot_hold_is_refused(number, dtype):
    scalar = {b"__npgeneric__": True, b"data": number, b"dtype": dtype}
    with pytest.raises(BadFrame):
        unpack(msgpack.packb({"a": scalar}))


def test_a_pickle_is_never_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "was-here"), "w"))

    whole = {b"__ndarray__": True, b"data": pickle.dumps(Bomb()), b"dtype": "O", b"shape": [1]}
    with pytest.raises(BadFrame):
        unpack(msgpack.packb({"a": whole}))
    with pytest.raises(BadFrame):
        unpack(pickle.dumps(Bomb()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("frame", [b"", b"\x93\x01\x02\x03", b"\xc1", b"\x82\xa1a"])
def test_what_is_no_map_is_refused(frame):
    with pytest.raises(BadFrame):
        unpack(frame)


def test_numbers_that_are_not_finite_arrive_as_they_are():
    action = np.array([[math.nan, math.inf]], np.float32)
    np.testing.assert_array_equal(unpack(pack({"action": action}))["action"], action)
