# SPDX-License-Identifier: Apache-2.0
"""Our client before SGLang's own action endpoint; only the scheduler behind it is a stand-in."""

from __future__ import annotations

import base64
import io
import json
import os
import selectors
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from cosmos3_parts import asked, episode, loaded, scene, write_statistics
from PIL import Image
from sglang_stub import SGLangStub

from rpent_box.backends.cosmos3.adapter.decode import decode_libero
from rpent_box.backends.cosmos3.adapter.encode import encode_libero
from rpent_box.backends.cosmos3.client import SGLangClient
from rpent_box.backends.cosmos3.model import Cosmos3, recipe_of
from rpent_box.backends.cosmos3.request import build_request
from rpent_box.backends.cosmos3.settings import Settings
from rpent_box.backends.noise import noise_seed
from rpent_box.errors import BadActions, BadCheckpoint, BadOption, PredictionFailed

pytestmark = [pytest.mark.upstream, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "support" / "cosmos3"
VARIABLE = "RPENT_BOX_SGLANG_PYTHON"
MODEL = "nvidia/cosmos3-test"
MAX_BATCH = 2
START_S = 900.0
"""SGLang imports for a minute, on a busy machine for several."""


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of SGLang's router, in SGLang's own Python."""
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(
            f"{VARIABLE} names no Python with SGLang. Make one with Python 3.11: pip install "
            f"--no-deps -r tests/support/cosmos3/router-requirements.txt; then {VARIABLE}=PYTHON "
            "make test ARGS='-m upstream -k cosmos3_router'"
        )
    log = tmp_path_factory.mktemp("router") / "router.log"
    words = [python, str(SUPPORT / "router_with_stub_scheduler.py"), MODEL, str(MAX_BATCH)]
    with log.open("w") as errors:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            yield _address(process, log)
        finally:
            process.terminate()
            process.wait(30)


def _address(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    deadline = time.monotonic() + START_S
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if waiting.select(1.0):
                line = process.stdout.readline()
                if line.startswith("http://"):
                    return line.strip()
                if not line:
                    break
    pytest.fail(f"SGLang's router did not start:\n{log.read_text()[-3000:]}")


@pytest.fixture
def statistics(tmp_path: Path) -> Path:
    return write_statistics(tmp_path)


class At:
    """What `loaded` wants to know of a service."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint


def backend(router: str, statistics: Path, **options: Any) -> Cosmos3:
    return loaded(At(router), statistics, **options)  # type: ignore[arg-type]


def seen(router: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{router}/seen", trust_env=False).json()
    return found


def test_it_is_recognised_by_its_own_metadata(router: str, statistics: Path) -> None:
    model = backend(router, statistics)
    assert model.meta.provenance["served_model"] == MODEL
    assert model.meta.provenance["served_from"] == f"/models/{MODEL}"
    with pytest.raises(BadCheckpoint, match=MODEL):
        backend(router, statistics, checkpoint="nvidia/cosmos3-other")
    with pytest.raises(BadOption, match="at most 2"):
        backend(router, statistics, batching_max_size=3)


def test_a_prediction_reaches_the_scheduler_whole_and_comes_back_whole(
    router: str, statistics: Path
) -> None:
    model = backend(router, statistics)
    observation = scene(5)
    chunk = model.predict(asked(observation, episode(chunk=3)))
    given = seen(router)[-1]
    recipe = recipe_of(Settings(action_stats=str(statistics)))
    encoded = encode_libero(observation, recipe)
    assert given["prompts"] == [encoded.prompt]
    assert given["seed"] == noise_seed(1, episode(chunk=3))
    assert (given["num_frames"], given["height"], given["width"]) == (17, 192, 320)
    assert (given["fps"], given["action_fps"], given["num_inference_steps"]) == (20, 20.0, 30)
    assert (given["domain_name"], given["action_view_point"]) == ("libero", "ego_view")
    assert given["action_stats_path"] is None
    (uri,) = given["images"]
    with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as picture:
        np.testing.assert_array_equal(np.asarray(picture), encoded.image)
    wanted = decode_libero(np.array(given["actions"][0], np.float32), recipe)
    np.testing.assert_array_equal(chunk.actions, wanted)


def test_a_batch_is_split_by_prompt_and_gathered(router: str, statistics: Path) -> None:
    model = backend(router, statistics, batching_max_size=MAX_BATCH)
    before = len(seen(router))
    tasks = ["pick the bowl", "open the drawer", "pick the bowl", "pick the bowl"]
    requests = [asked(scene(n, task), episode(number=n)) for n, task in enumerate(tasks)]
    chunks = [chunk.actions for chunk in model.predict_batch(requests)]
    given = seen(router)[before:]
    assert [len(request["prompts"]) for request in given] == [2, 1, 1]
    recipe = recipe_of(Settings(action_stats=str(statistics)))
    for place, (group, row) in enumerate([(0, 0), (2, 0), (0, 1), (1, 0)]):
        values = np.array(given[group]["actions"][row], np.float32)
        np.testing.assert_array_equal(chunks[place], decode_libero(values, recipe))


def test_alone_in_its_request_an_environments_noise_is_its_own(
    router: str, statistics: Path
) -> None:
    model = backend(router, statistics)
    one, two = asked(scene(1), episode(number=1)), asked(scene(2), episode(number=2))
    alone = model.predict(one).actions
    together = model.predict_batch([two, one])
    np.testing.assert_array_equal(together[1].actions, alone)


def test_in_one_request_an_environments_noise_depends_on_the_others(
    router: str, statistics: Path
) -> None:
    """Why `batching_max_size` is 1 unless asked for.

    The stand-in draws as SGLang's pipeline does, from one generator for all of a request
    (pipelines_core/stages/model_specific_stages/cosmos3.py, `_prepare_action_latents`).
    """
    model = backend(router, statistics, batching_max_size=MAX_BATCH)
    one, two = asked(scene(1), episode(number=1)), asked(scene(2), episode(number=2))
    alone = model.predict(one).actions
    together = model.predict_batch([two, one])
    assert not np.array_equal(together[1].actions, alone)


def test_a_seed_for_each_input_is_not_taken(router: str) -> None:
    body = json.loads(request_body("two seeds"))
    body["parameters"]["seed"] = [1, 2]
    answer = httpx.post(f"{router}/v1/actions/generations", json=body, trust_env=False)
    assert answer.status_code == 500


def request_body(prompt: str, **changes: Any) -> bytes:
    settings = Settings(action_normalization="none", **changes)
    recipe = recipe_of(settings)
    return build_request([encode_libero(scene(1, prompt), recipe)], settings, 1).body()


@pytest.mark.parametrize(
    "changes", [{"domain_name": ""}, {"num_frames": 18}], ids=["no domain", "18 frames"]
)
def test_its_refusals_come_with_its_reason(router: str, changes: dict[str, Any]) -> None:
    client = SGLangClient(router)
    with pytest.raises(PredictionFailed, match="refused the request: Cosmos3 "):
        client.generate([request_body("bad", **changes)], at_once=1, deadline=time.monotonic() + 60)
    client.close()


def test_a_failure_behind_it_is_an_error(router: str, statistics: Path) -> None:
    with pytest.raises(PredictionFailed, match="status 500"):
        backend(router, statistics).predict(asked(scene(1, "fail at once")))


def test_nan_comes_as_null_and_is_refused(router: str, statistics: Path) -> None:
    with pytest.raises(BadActions, match="None in step 2, column 1"):
        backend(router, statistics).predict(asked(scene(1, "garbage please")))


def test_the_stub_of_the_other_tests_answers_in_the_same_form(router: str) -> None:
    pairs = [
        ("/v1/actions/metadata", None),
        ("/v1/actions/generations", request_body("the same")),
        ("/v1/actions/generations", request_body("no domain", domain_name="")),
        ("/v1/actions/generations", request_body("18 frames", num_frames=18)),
    ]
    with SGLangStub(model=MODEL, max_batch=MAX_BATCH) as stub:
        for path, body in pairs:
            real, ours = (_ask(f"{base}{path}", body) for base in (router, stub.endpoint))
            assert real.status_code == ours.status_code, path
            assert form_of(real.json()) == form_of(ours.json()), path


def _ask(url: str, body: bytes | None) -> httpx.Response:
    if body is None:
        return httpx.get(url, trust_env=False)
    headers = {"content-type": "application/json"}
    return httpx.post(url, content=body, headers=headers, trust_env=False, timeout=60)


def form_of(value: object) -> object:
    """Return names and types without the values; of lists of numbers, the lengths."""
    if isinstance(value, dict):
        return {name: form_of(part) for name, part in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        return [form_of(part) for part in value]
    return len(value) if isinstance(value, list) else type(value)
