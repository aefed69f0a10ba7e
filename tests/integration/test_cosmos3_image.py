# SPDX-License-Identifier: Apache-2.0
"""The worker's image before a service on this machine: what it borrows, it leaves as it was."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import httpx
import numpy as np
import pytest
from cosmos3_parts import asked, episode, loaded, scene, write_statistics
from sglang_stub import MODEL, SGLangStub

from rpent_box.backends.cosmos3 import BACKEND
from rpent_box.client.model_client import ModelClient
from rpent_box.errors import LaunchError, PredictionFailed, ProgramDied, WorkerFailed
from rpent_box.launch.box import Box
from rpent_box.launch.build import build_images
from rpent_box.launch.choose import choose_launcher
from rpent_box.launch.engine_socket import check_engine, engine_socket
from rpent_box.launch.images import image_name
from rpent_box.launch.recipe import Target
from rpent_box.launch.standalone import StandaloneWorker, standalone_worker
from rpent_box.options import parse_options
from rpent_box.worker.needs import needs_of

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

START_S = 120.0


@pytest.fixture(scope="module")
def image() -> str:
    try:
        check_engine(engine_socket())
    except LaunchError as error:
        pytest.skip(f"no Docker engine: {error.message}")
    target = Target("backend", BACKEND.name)
    build_images([target], say=lambda _text: None, environ=os.environ)
    return image_name(target.kind, target.name)


@pytest.fixture
def stub() -> Iterator[SGLangStub]:
    with SGLangStub() as running:
        yield running


def serve(
    image: str, folder: Path, endpoint: str, *more: str, checkpoint: str = MODEL
) -> AbstractContextManager[StandaloneWorker]:
    """Start the image's worker, asking the service at `endpoint`, as the command line does."""
    words = [
        f"--sglang-endpoint={endpoint}",
        f"--action-stats={write_statistics(folder)}",
        *more,
    ]
    options = parse_options(BACKEND.options, words, program="test")
    return standalone_worker(
        BACKEND,
        choose_launcher("docker")[0],
        needs=needs_of(BACKEND, options, checkpoint=checkpoint, device=None),
        checkpoint=checkpoint,
        platform="libero",
        options=words,
        python=sys.executable,
        root=None,
        cuda_device=None,
        threads=1,
        log=str(folder / "worker.log"),
        image=image,
        start_timeout_s=START_S,
        say=lambda _phase: None,
        runtime_dir=folder / "runtime",
    )


def test_the_container_predicts_what_this_process_does_and_stopping_it_spares_the_service(
    image: str, stub: SGLangStub, tmp_path: Path
) -> None:
    with serve(image, tmp_path, stub.endpoint) as worker:
        place = Box.join(worker.endpoint)
        with ModelClient.connect(
            worker.endpoint, client="test", box=place.paths, timeout_s=START_S
        ) as client:
            assert client.meta.checkpoint == MODEL
            assert client.meta.provenance["service"] == stub.endpoint
            client.reset()
            chunk = client.predict(scene(3), episode=episode(chunk=2))
        asked_before = len(stub.requests)
        worker.running.stop(grace_s=20)
        status = worker.running.exit_status()
        assert status is not None
        assert status.code == 0, worker.running.last_log_lines()
    assert asked_before >= 1
    # The worker is gone; what it borrowed answers as before, and to the next one too.
    metadata = httpx.get(f"{stub.endpoint}/v1/actions/metadata", trust_env=False)
    assert metadata.json()["model"] == MODEL
    here = loaded(stub, write_statistics(tmp_path)).predict(asked(scene(3), episode(chunk=2)))
    np.testing.assert_array_equal(chunk.actions, here.actions)


def test_a_service_that_is_missing_is_named_with_the_next_step(image: str, tmp_path: Path) -> None:
    with SGLangStub() as gone:
        pass
    with (
        pytest.raises((WorkerFailed, ProgramDied), match="no SGLang service answers") as failed,
        serve(image, tmp_path, gone.endpoint, "--service-wait-s=1"),
    ):
        pass
    assert "--sglang-endpoint" in str(failed.value)


def test_a_service_of_another_model_is_refused(
    image: str, stub: SGLangStub, tmp_path: Path
) -> None:
    with (
        pytest.raises((WorkerFailed, ProgramDied), match="serves nvidia/cosmos3-test"),
        serve(image, tmp_path, stub.endpoint, checkpoint="nvidia/cosmos3-other"),
    ):
        pass


def test_a_service_that_ends_fails_the_prediction_and_not_the_worker(
    image: str, tmp_path: Path
) -> None:
    with ExitStack() as life:
        with SGLangStub() as stub:
            worker = life.enter_context(serve(image, tmp_path, stub.endpoint))
        place = Box.join(worker.endpoint)
        client = life.enter_context(
            ModelClient.connect(worker.endpoint, client="test", box=place.paths, timeout_s=START_S)
        )
        with pytest.raises(PredictionFailed, match="no SGLang service answers"):
            client.predict(scene())
        assert client.health().state == "ready"
