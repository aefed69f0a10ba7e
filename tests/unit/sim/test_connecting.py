# SPDX-License-Identifier: Apache-2.0
import pytest
from fake_models import PLATFORM, FakeModel, observation
from msgspec.structs import replace
from running_service import running

from rpent_box.contracts.control_messages import ConnectWorker
from rpent_box.errors import SharedMemoryFull
from rpent_box.sim.connecting import WorkerConnector
from rpent_box.transport.paths import SHM


def wanted(worker):
    paths = worker.channel()._box
    return ConnectWorker(endpoint=paths.worker_endpoint, box=paths.box)


def rings(connect):
    return list(SHM.glob(f"rpent-box.{connect.box}.sim-*"))


def test_the_memory_for_the_platforms_frames_is_taken_before_the_first_episode():
    with running(FakeModel()) as worker:
        connect = wanted(worker)
        assert rings(connect) == []
        with WorkerConnector(view="host").connect(connect, PLATFORM) as client:
            (ring,) = rings(connect)
            size = ring.stat().st_size
            client.predict(observation(size=PLATFORM.image_size))
            assert [one.stat().st_size for one in rings(connect)] == [size]
        assert rings(connect) == []


def test_frames_that_shared_memory_cannot_hold_are_refused_when_connecting():
    huge = replace(PLATFORM, image_size=(2_000_000, 2_000_000))
    with running(FakeModel()) as worker:
        connect = wanted(worker)
        with pytest.raises(SharedMemoryFull):
            WorkerConnector(view="host").connect(connect, huge)
        assert rings(connect) == []
        assert worker.health().state == "ready"
