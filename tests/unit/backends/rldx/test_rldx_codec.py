# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from contextlib import suppress

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from upstream_goldens import golden_json

from rpent_box.backends.rldx import requests
from rpent_box.backends.rldx.codec import decode, encode
from rpent_box.errors import ProtocolMismatch

SHA_ONLY = {
    # Its pixels are written down as a digest: they are read back from the request itself.
    "c02"
}


def cases():
    return golden_json("wire_rldx")["cases"]


def meant(value):
    """Build what a case was sent, or answered, from its description."""
    if isinstance(value, list):
        return [meant(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = value.get("torch", value)
    if isinstance(inner, dict) and "ndarray" in inner:
        return np.array(inner["ndarray"], np.dtype(inner["dtype"])).reshape(inner["shape"])
    return {key: meant(item) for key, item in value.items()}


def same(left, right):
    if isinstance(right, np.ndarray):
        return (
            isinstance(left, np.ndarray)
            and left.dtype == right.dtype
            and left.shape == right.shape
            and left.tobytes() == right.tobytes()
        )
    if isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in right)
    if isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def test_every_request_is_written_byte_for_byte_as_upstream_writes_it():
    for case in cases():
        written = bytes.fromhex(case["request_hex"])
        assert encode(decode(written)) == written, case["what"]


def test_requests_are_written_from_their_meaning_alone():
    for case in cases():
        if case["case"] in SHA_ONLY:
            continue
        message = meant(case["sent_meaning"])
        if "fortran" in str(case["what"]):
            state = message["data"]["observation"]["state"]
            state["fortran"] = np.asfortranarray(state["fortran"])
        assert encode(message) == bytes.fromhex(case["request_hex"]), case["what"]


def test_answers_are_read_as_upstream_meant_them():
    for case in cases():
        answer = decode(bytes.fromhex(case["response_hex"]))
        assert same(answer, meant(case["response_meaning"])), case["what"]


def test_a_ping_is_upstreams_with_and_without_a_token():
    written = {case["what"]: case["request_hex"] for case in cases()}
    assert requests.ping().hex() == written["ping"]
    assert requests.ping("tok").hex() == written["token accepted"]


def test_a_prediction_is_laid_out_as_upstream_lays_it_out():
    wanted = next(case for case in cases() if case["case"] == "c02")
    message = decode(bytes.fromhex(wanted["request_hex"]))
    observation = message["data"]["observation"]
    ours = requests.get_action(observation, {"session_ids": ["a"], "reset_memory": [True]})
    with_null = {**message, "data": {"observation": observation, "options": None}}
    assert encode(with_null).hex() == wanted["request_hex"]
    head = encode({"endpoint": "get_action", "data": {"observation": observation}})
    # The same bytes up to the options; the map of `data` has one entry more.
    assert ours.startswith(head.replace(b"\xa4data\x81", b"\xa4data\x82", 1))
    assert decode(ours)["data"]["options"] == {"session_ids": ["a"], "reset_memory": [True]}


def test_no_reset_can_be_written_without_exactly_one_session():
    everyone = {
        bytes.fromhex(case["request_hex"]) for case in cases() if case["what"].startswith("reset")
    }
    written = requests.reset_session("mine")
    assert written not in everyone
    assert decode(written) == {"endpoint": "reset", "data": {"options": {"session_ids": ["mine"]}}}
    for nobody in ("", None, [], ["a", "b"]):
        with pytest.raises(ValueError, match="must name its session"):
            requests.reset_session(nobody)


def test_the_questions_are_a_closed_set_without_kill():
    asked = {name for name in vars(requests) if not name.startswith("_")} - {
        "annotations", "Mapping", "Message", "encode",
    }  # fmt: skip
    assert asked == {"ping", "modality_config", "get_action", "reset_session"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x93\x01",
        b"Not Found",
        encode({"a": np.zeros(3)})[:-1],
        msgspec.msgpack.encode({"__ndarray_class__": True}),
        msgspec.msgpack.encode({"__ndarray_class__": True, "as_npy": "text"}),
        msgspec.msgpack.encode({"__ndarray_class__": True, "as_npy": b"\x93NUMPY"}),
    ],
)
def test_what_is_no_answer_is_refused(data):
    with pytest.raises(ProtocolMismatch, match="cannot be read"):
        decode(data)


def test_an_array_of_objects_is_never_unpickled():
    pickled = np.array([{}], dtype=object).dumps()
    header = b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    npy = header.ljust(127) + b"\n" + pickled
    sent = msgspec.msgpack.encode({"__ndarray_class__": True, "as_npy": npy})
    with pytest.raises(ProtocolMismatch, match="an array of object"):
        decode(sent)


def npy(header, numbers=b""):
    """Return what is sent of a `.npy` file with any header at all."""
    file = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + numbers
    return msgspec.msgpack.encode([{"__ndarray_class__": True, "as_npy": file}])


def header(shape, descr="<f4", in_columns=False):
    return repr({"descr": descr, "fortran_order": in_columns, "shape": shape}) + "\n"


def test_an_array_is_read_in_either_order_and_of_any_shape():
    numbers = np.arange(6, dtype=np.float32).tobytes()
    for in_columns, wanted in ((False, [[0, 1, 2], [3, 4, 5]]), (True, [[0, 2, 4], [1, 3, 5]])):
        (read,) = decode(npy(header((2, 3), in_columns=in_columns), numbers))
        assert read.tolist() == wanted
    (empty,) = decode(npy(header((3, 0))))
    assert empty.shape == (3, 0)
    (one,) = decode(npy(header(()), b"\x00\x00\x80?"))
    assert (one.shape, float(one)) == ((), 1.0)


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        (npy(header((10**15,))), "takes 4000000000000000 bytes, not 0"),
        (npy(header((2,)), bytes(7)), "takes 8 bytes, not 7"),
        (npy(header((2,)), bytes(9)), "takes 8 bytes, not 9"),
        (npy(header((-1, -1)), bytes(4)), "takes 4 bytes, not 4"),
        (npy(header((0,) * 70)), "dimension"),
        (npy(header((1,), "<U1"), bytes(4)), "no plain numbers"),
        (npy(header((1,), "<c8"), bytes(8)), "no plain numbers"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), "), "cannot be read"),
        (npy('"""'), "cannot be read"),
        (npy("(" * 3000), "cannot be read"),
        (npy("-" * 9000 + "1"), "cannot be read"),
        (npy("1 1"), "cannot be read"),
        (npy("{}"), "cannot be read"),
        (msgspec.msgpack.encode({"__ndarray_class__": True, "as_npy": b""}), "cannot be read"),
        (msgspec.msgpack.encode({"__ndarray_class__": True, "as_npy": b"PK\x03\x04"}), "magic|EOF"),
        (
            msgspec.msgpack.encode({"__ndarray_class__": True, "as_npy": b"\x93NUMPY\x03\x00"}),
            "another version",
        ),
    ],
)
def test_an_array_that_does_not_add_up_is_refused_without_making_room_for_it(sent, complaint):
    with pytest.raises(ProtocolMismatch, match=complaint):
        decode(sent)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_answer_is_read_or_refused_and_nothing_else(data):
    sound = encode({"action": np.ones((1, 2), np.float32), "info": {"a": [1, None]}})
    frame = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolMismatch):
        decode(bytes(frame))


def test_what_cannot_be_sent_is_named():
    with pytest.raises(NotImplementedError, match="complex"):
        encode({"value": 1j})
