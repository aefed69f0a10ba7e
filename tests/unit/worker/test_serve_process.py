# SPDX-License-Identifier: Apache-2.0
"""A worker as a process of its own: what it prints, which signals it hears, how it ends."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from running_service import room, wait_until

from rpent_box.client.connecting import ask_figures
from rpent_box.client.model_client import ModelClient
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.observation import Observation
from rpent_box.errors import PeerGone, WorkerFailed
from rpent_box.transport.channel import ClientChannel
from rpent_box.transport.lease import Lease
from rpent_box.worker.serve import THREAD_VARIABLES, pin_threads

ROOT = Path(__file__).parents[3]
TOY = ROOT / "tests" / "support" / "toy"
START_S = 60.0


@pytest.fixture
def paths():
    with room() as paths:
        yield paths


@pytest.fixture
def start(tmp_path):
    started = []

    def start(*words):
        path = os.pathsep.join(str(p) for p in (ROOT, TOY, TOY / "entry_points"))
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "rpent_box.worker.serve", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": path},
                text=True,
            )
        started.append(process)
        process.log = lambda: (tmp_path / "log").read_text()
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def owned(paths, *more):
    return (
        "toy",
        f"--endpoint={paths.worker_endpoint}",
        "--platform=toy",
        f"--box={paths.box}",
        *more,
    )


def connect(paths, **more):
    return ModelClient.connect(
        paths.worker_endpoint, client="test", box=paths, timeout_s=START_S, **more
    )


def connect_without_box(paths):
    return ModelClient.connect(paths.worker_endpoint, client="test", box=None, timeout_s=START_S)


def look():
    return Observation(
        images={role: np.zeros((8, 8, 3), np.uint8) for role in ("primary", "wrist")},
        proprio={name: np.zeros(2, np.float32) for name in ("position", "goal")},
        instruction="go",
    )


def test_it_says_where_it_listens_serves_and_drains_on_sigterm(start, paths):
    worker = start(*owned(paths))
    assert worker.stdout.readline().strip() == paths.worker_endpoint
    with connect(paths, image_size=(8, 8)) as client:
        assert client.predict(look()).actions.shape == (4, 2)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(START_S) == 0
    assert "draining: got SIGTERM" in worker.log()
    assert list(paths.sockets.iterdir()) == []


def test_port_0_becomes_a_real_one(start):
    worker = start("toy", "--endpoint=tcp://127.0.0.1:0", "--platform=toy")
    endpoint = worker.stdout.readline().strip()
    assert endpoint.startswith("tcp://127.0.0.1:")
    assert not endpoint.endswith(":0")
    with ModelClient.connect(endpoint, client="t", box=None, timeout_s=START_S) as client:
        assert client.predict(look()).actions.shape == (4, 2)


def test_an_owned_worker_ends_soon_after_its_owner_even_while_it_infers(start, paths):
    lease = Lease.hold(paths.lease)
    worker = start(*owned(paths, f"--lease={paths.lease}", "--misbehave=hang"))
    worker.stdout.readline()
    key = EpisodeKey(seed=0, suite="s", task=0, episode=0, chunk=0)
    with connect(paths) as client, connect(paths) as watcher, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.predict, look(), episode=key)
        wait_until(lambda: watcher.health().in_flight == 1)
        lease.close()
        let_go = time.monotonic()
        assert worker.wait(START_S) == 0
        took_s = time.monotonic() - let_go
        with pytest.raises(PeerGone):
            answer.result(timeout=START_S)
    assert took_s < 10.0
    assert "the owner is gone" in worker.log()


def test_a_torn_checkpoint_is_told_with_its_traceback_and_ends_with_1(start, paths):
    worker = start(*owned(paths, "--misbehave=load"))
    worker.stdout.readline()
    with pytest.raises(WorkerFailed, match="the toy weights are torn") as failed:
        connect(paths)
    assert "Traceback" in failed.value.detail
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(START_S) == 1
    assert "RuntimeError: the toy weights are torn" in worker.log()


def test_wrong_usage_is_one_screen_without_a_traceback_and_ends_with_2(start):
    worker = start("toy", "--endpoint=tcp://127.0.0.1:0", "--platform=mars")
    assert worker.wait(START_S) == 2
    assert "no adapter for the platform mars" in worker.log()
    assert "Traceback" not in worker.log()


def test_a_busy_socket_ends_with_1_and_says_who_has_it(start, paths):
    first = start(*owned(paths))
    first.stdout.readline()
    second = start(*owned(paths))
    assert second.wait(START_S) == 1
    assert "is in use" in second.log()
    assert "Traceback" not in second.log()


def test_batches_of_mini_wam_answer_as_single_predictions_to_the_last_bit(start, paths):
    pytest.importorskip(
        "onnxruntime", reason="needs onnxruntime: pip install 'rpent-box[mini-wam]'"
    )
    from mini_wam_golden import golden_observation, predict, shipped

    shown = golden_observation()
    hand = shown.proprio["eef_position"]
    moved = [
        replace(shown, proprio={**shown.proprio, "eef_position": hand + np.float32(0.003 * n)})
        for n in range(12)
    ]
    endpoint = f"--endpoint={paths.worker_endpoint}"
    # Long: the test is about batches, and a busy machine sends the third client late.
    worker = start("mini-wam", endpoint, "--platform=libero", "--max-wait-ms=2000")
    worker.stdout.readline()

    def ask(number, client):
        return [client.predict(seen).actions for seen in moved[number::3]]

    with ExitStack() as life:
        clients = [life.enter_context(connect_without_box(paths)) for _ in range(3)]
        pool = life.enter_context(ThreadPoolExecutor(3))
        answers = list(pool.map(ask, range(3), clients, timeout=START_S))
        channel = ClientChannel.connect(
            paths.worker_endpoint, client="figures", box=None, timeout_s=START_S
        )
        life.callback(channel.close)
        figures = ask_figures(channel, timeout_s=START_S)
    assert figures.served == 12
    # The first of a size is predicted one by one too: at least one more was inferred at once.
    assert any(size > 1 and times > 1 for size, times in figures.batches.items()), figures.batches
    model = shipped()
    for number, chunks in enumerate(answers):
        alone = [predict(model, seen).actions for seen in moved[number::3]]
        assert np.abs(np.array(chunks) - np.array(alone)).max() < 1e-5
        assert np.array_equal(chunks, alone)


def test_threads_are_pinned_for_what_is_imported_later(monkeypatch):
    for variable in THREAD_VARIABLES:
        monkeypatch.setenv(variable, "99")
    pin_threads(3)
    assert {os.environ[variable] for variable in THREAD_VARIABLES} == {"3"}
    assert "OMP_NUM_THREADS" in THREAD_VARIABLES
