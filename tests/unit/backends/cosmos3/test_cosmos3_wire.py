# SPDX-License-Identifier: Apache-2.0
"""Requests as upstream's client sends them; the stub as SGLang's own endpoint answers."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from cosmos3_parts import scene
from PIL import Image
from sglang_stub import SGLangStub
from upstream_goldens import golden_cases, golden_json

from rpent_box.backends.cosmos3.adapter.encode import ModelInput, describe_views
from rpent_box.backends.cosmos3.answer import read_answer
from rpent_box.backends.cosmos3.grouping import group_by_prompt
from rpent_box.backends.cosmos3.request import URI_PREFIX, Request, build_request
from rpent_box.backends.cosmos3.settings import Settings


def settings_of(payload: dict[str, Any]) -> Settings:
    """Return the settings that a golden request was made with."""
    parameters = payload["parameters"]
    shared = {
        name: parameters[name]
        for name in (
            "num_frames", "action_fps", "action_view_point", "fps", "num_inference_steps",
            "domain_name",
        )
    }  # fmt: skip
    size = f"{parameters['width']}x{parameters['height']}"
    return Settings(action_normalization="none", size=size, **shared)


def test_a_request_equals_upstreams_in_every_field_and_every_pixel() -> None:
    for case in golden_cases("cosmos3_request"):
        payload = case.facts["payload_without_images"]
        inputs = [
            ModelInput(prompt=describe_views(task, 2), image=image)
            for task, image in zip(case.facts["tasks"], case["composed"], strict=True)
        ]
        request = build_request(inputs, settings_of(payload), payload["parameters"]["seed"])
        sent = json.loads(request.body())
        uris = sent["input"].pop("input_reference")
        assert sent == payload
        assert list(sent["parameters"]) == list(payload["parameters"])
        for uri, wanted in zip(uris, case["composed"], strict=True):
            assert uri.startswith(case.facts["uri_prefix"])
            png = base64.b64decode(uri.removeprefix(case.facts["uri_prefix"]))
            with Image.open(io.BytesIO(png)) as picture:
                assert picture.mode == "RGB"
                np.testing.assert_array_equal(np.asarray(picture), wanted)


def test_our_request_is_what_sglang_was_seen_to_take() -> None:
    """The golden exchanges were made with SGLang's own endpoint."""
    exchanges = [case for case in golden_json("cosmos3_sglang_wire")["cases"] if "request" in case]
    taken = [case for case in exchanges if case["status"] == 200]
    assert taken
    for case in taken:
        body = json.loads(json.dumps(case["request"]))
        given = body["input"]
        for name in ("prompt", "input_reference"):
            if isinstance(given[name], str):
                given[name] = [given[name]]
        request = msgspec.convert(body, Request)
        assert json.loads(request.body()) == body


def test_answers_of_sglang_are_read_in_order() -> None:
    read = 0
    for case in golden_json("cosmos3_sglang_wire")["cases"]:
        if case["status"] != 200 or "response_text" not in case:
            continue
        answer = json.loads(case["response_text"])
        if answer["object"] != "action.generation":
            continue
        count = len(answer["data"])
        chunks = read_answer(
            case["response_text"].encode(), count=count, model=answer["model"], service="SGLang"
        )
        for place, chunk in enumerate(chunks):
            wanted = np.array(answer["data"][place]["action"]["values"], np.float32)
            np.testing.assert_array_equal(chunk, wanted)
            assert chunk.dtype == np.float32
        read += 1
    assert read >= 2


def test_the_stub_answers_as_sglang_was_seen_to() -> None:
    compared = 0
    with SGLangStub(model="cosmos3", max_batch=8) as stub, httpx.Client(trust_env=False) as http:
        for case in golden_json("cosmos3_sglang_wire")["cases"]:
            if "response_text" not in case:
                continue  # msgpack, which our client does not speak
            if "request" in case:
                url = f"{stub.endpoint}/v1/actions/generations"
                came = http.post(url, json=case["request"])
            else:
                came = http.get(f"{stub.endpoint}/v1/actions/metadata")
            assert came.status_code == case["status"], case["what"]
            assert came.headers["content-type"] == case["content_type"]
            assert shape_of(came.json()) == shape_of(json.loads(case["response_text"]))
            compared += 1
    assert compared >= 4


def shape_of(value: object) -> object:
    """Return names and types without the values; how many actions there are is a value too."""
    if isinstance(value, dict):
        return {name: shape_of(part) for name, part in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [shape_of(part) for part in value]
    if isinstance(value, list):
        return [shape_of(value[0])] if value else []
    return type(value)


def test_environments_are_grouped_by_prompt_in_the_order_of_their_appearance() -> None:
    for case in golden_json("cosmos3_grouping")["cases"]:
        if "tasks" in case:
            groups = group_by_prompt(case["tasks"], case["batching_max_size"])
            assert groups == case["groups"]


def test_grouping_loses_nobody_and_mixes_nothing() -> None:
    prompts = ["bowl", "drawer", "bowl", "bowl"]
    assert group_by_prompt(prompts, 2) == [[0, 2], [3], [1]]
    assert group_by_prompt(prompts, 1) == [[0], [2], [3], [1]]
    assert group_by_prompt(prompts, 8) == [[0, 2, 3], [1]]
    assert group_by_prompt([], 2) == []


def test_a_picture_travels_without_loss() -> None:
    image = scene(3, size=64).images["primary"]
    request = build_request(
        [ModelInput(prompt="a", image=image)], Settings(action_normalization="none"), 5
    )
    uri = request.input.input_reference[0]
    assert uri.startswith(URI_PREFIX)
    with Image.open(io.BytesIO(base64.b64decode(uri.removeprefix(URI_PREFIX)))) as picture:
        np.testing.assert_array_equal(np.asarray(picture), image)


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1])
def test_the_seed_travels_as_it_is(seed: int) -> None:
    image = scene(3, size=16).images["primary"]
    inputs = [ModelInput(prompt="a", image=image)]
    request = build_request(inputs, Settings(action_normalization="none"), seed)
    assert json.loads(request.body())["parameters"]["seed"] == seed
