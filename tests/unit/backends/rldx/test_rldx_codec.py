# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import numpy as np
import pytest
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
    with pytest.raises(ProtocolMismatch, match="allow_pickle"):
        decode(sent)


def test_what_cannot_be_sent_is_named():
    with pytest.raises(NotImplementedError, match="complex"):
        encode({"value": 1j})
