# SPDX-License-Identifier: Apache-2.0
"""A service in a thread of the test's own process, and clients over each kind of line."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bare_box import make_bare_box, remove_bare_box
from fake_models import CONTROL, SPEC, observation

from rpent_box.client.connecting import ask_figures, ask_health
from rpent_box.client.model_client import ModelClient
from rpent_box.contracts.messages import Figures, Health, Payload, Request, WamPredict
from rpent_box.contracts.observation import Observation
from rpent_box.transport.channel import ClientChannel, ServerChannel
from rpent_box.transport.paths import BoxPaths
from rpent_box.transport.ring import describe
from rpent_box.transport.twin import Twin
from rpent_box.worker.backend import Backend, BackendSpec
from rpent_box.worker.config import ServiceConfig
from rpent_box.worker.service import Service

LINKS = ("shm", "tcp", "twin")

PATIENCE_S = 60.0
"""For what must happen: a busy machine makes it late, and not wrong."""


class RunningService:
    """What a test sees of a worker."""

    def __init__(
        self, service: Service, channel: ServerChannel, connect: Callable[[str], ClientChannel]
    ) -> None:
        self.service = service
        self.code: int | None = None
        self._channel = channel
        self._connect = connect
        self._calls: list[Future[Any]] = []
        self._life = ExitStack()
        self._watcher: ClientChannel | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def channel(self, name: str = "test") -> ClientChannel:
        """Return a connection that is closed at the end, if not before."""
        return self._life.enter_context(self._connect(name))

    def client(
        self, name: str = "test", *, prediction_timeout_s: float | None = PATIENCE_S
    ) -> ModelClient:
        """Return a client of a ready worker."""
        channel = self.channel(name)
        self.await_state("ready", channel)
        client = ModelClient(channel, prediction_timeout_s=prediction_timeout_s)
        return self._life.enter_context(client)

    def await_state(self, state: str, channel: ClientChannel) -> None:
        """Ask over `channel` until the worker is in `state`."""
        wait_until(lambda: ask_health(channel, timeout_s=PATIENCE_S).state == state)

    def health(self) -> Health:
        """Ask over a connection of its own, as a supervisor does."""
        return ask_health(self._watching(), timeout_s=PATIENCE_S)

    def figures(self) -> Figures:
        """Ask for what it has counted, over the same connection."""
        return ask_figures(self._watching(), timeout_s=PATIENCE_S)

    def _watching(self) -> ClientChannel:
        if self._watcher is None:
            self._watcher = self.channel("watcher")
        return self._watcher

    def in_thread(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """Start `call`; what is returned waits for its result, or raises its error."""
        pool = ThreadPoolExecutor(1)
        future = pool.submit(call)
        pool.shutdown(wait=False)
        self._calls.append(future)
        return lambda: future.result(timeout=PATIENCE_S)

    def join(self, timeout_s: float = PATIENCE_S) -> int | None:
        """Wait for the service to end; return its exit code, None while it runs."""
        self._thread.join(timeout_s)
        return self.code

    def close(self) -> None:
        """End the worker, then whoever still waits for it, then the clients."""
        self.service.drain("the test is over")
        code = self.join()
        self._channel.close()
        wait(self._calls, timeout=PATIENCE_S)
        self._life.close()
        if code is None:
            raise AssertionError("the service did not end")

    def _run(self) -> None:
        self.code = self.service.run()


@contextmanager
def running(
    backend: Backend | Callable[[Callable[[str], None]], Backend],
    *,
    link: str = "shm",
    spec: BackendSpec = SPEC,
    config: ServiceConfig | None = None,
) -> Iterator[RunningService]:
    """Serve `backend` (a model, or a function that loads one) over `link`."""
    load = backend if not hasattr(backend, "predict") else (lambda _: backend)
    config = config or ServiceConfig(drain_s=2.0, failed_linger_s=PATIENCE_S, sweep_s=0.05)
    with _line(link) as (channel, connect):
        worker = RunningService(Service(load, spec, channel, config), channel, connect)
        try:
            yield worker
        finally:
            worker.close()


@contextmanager
def room() -> Iterator[BoxPaths]:
    """A box's directories, without anyone who watches over them."""
    runtime_dir = Path(tempfile.mkdtemp(prefix="rb-", dir="/tmp"))
    paths = make_bare_box(runtime_dir)
    try:
        yield paths
    finally:
        remove_bare_box(paths)
        shutil.rmtree(runtime_dir, ignore_errors=True)


@contextmanager
def _line(link: str) -> Iterator[tuple[ServerChannel, Callable[[str], ClientChannel]]]:
    if link == "twin":
        twin = Twin()
        yield twin.server, partial(twin.client, timeout_s=PATIENCE_S)
        twin.server.close()
        return
    with ExitStack() as life:
        paths = life.enter_context(room()) if link == "shm" else None
        endpoint = paths.worker_endpoint if paths else "tcp://127.0.0.1:0"
        channel = life.enter_context(ServerChannel.bind(endpoint, box=paths))

        def connect(name: str) -> ClientChannel:
            return ClientChannel.connect(
                channel.endpoint, client=name, box=paths, timeout_s=PATIENCE_S
            )

        yield channel, connect


def wait_until(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    """Poll until `condition` holds; fail the test when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {condition}")
        time.sleep(0.005)


def gathered(
    worker: RunningService,
    model: Any,
    clients: Sequence[ModelClient],
    observations: Sequence[Observation],
) -> list[Callable[[], Any]]:
    """Keep the model busy until all have asked, so that they are answered as batches."""
    blocker = worker.client("blocker")
    model.started.clear()
    model.go_on.clear()
    blocked = worker.in_thread(lambda: blocker.predict(observation("wait")))
    if not model.started.wait(PATIENCE_S):
        raise AssertionError("the model was not asked")
    calls = []
    for number, (client, seen) in enumerate(zip(clients, observations, strict=True), start=1):
        calls.append(worker.in_thread(lambda client=client, seen=seen: client.predict(seen)))
        wait_until(lambda number=number: worker.health().queued == number)
    model.go_on.set()
    blocked()
    return calls


def ask_raw(channel: ClientChannel, seen: Observation, *, timeout_s: float) -> Any:
    """Send one prediction that gives the worker `timeout_s`, and wait longer for what it says."""
    _send_raw(channel, seen, timeout_s)
    reply, _ = channel._wire.receive(time.monotonic() + PATIENCE_S)
    return reply.body


def ask_without_waiting(channel: ClientChannel, seen: Observation, times: int) -> None:
    """Send so many predictions at once, as no client of ours does; then take the answers."""
    for _ in range(times):
        _send_raw(channel, seen, PATIENCE_S)
    for _ in range(times):
        channel._wire.receive(time.monotonic() + PATIENCE_S)


def _send_raw(channel: ClientChannel, seen: Observation, timeout_s: float) -> None:
    images = dict(sorted(seen.images.items()))
    body = WamPredict(
        instruction=seen.instruction,
        embodiment=CONTROL.embodiment,
        action_space=CONTROL.action_space,
        proprio={"eef_position": tuple(seen.proprio["eef_position"].tolist())},
        payload=Payload(tensors=describe(images)),
    )
    channel._last_id += 1
    request = Request(id=channel._last_id, timeout_s=timeout_s, body=body)
    channel._wire.send(request, list(images.values()))


def overwrite_slots(client: ModelClient) -> None:
    """Write every slot of the client's ring again, as a client gone wrong might."""
    ring = client._channel._ring
    ring.reset()
    for number in range(ring.slots):
        ring.write(observation(level=100).images, wait_s=0.0, holder=f"overwriter {number}")
