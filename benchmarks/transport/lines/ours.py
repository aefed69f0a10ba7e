# SPDX-License-Identifier: Apache-2.0
"""rpent-box: frames through shared memory, envelopes over ZeroMQ; also the same over raw frames."""

from __future__ import annotations

import numpy as np

from benchmarks.transport.cases import Actions, Case, Images, answer_to
from rpent_box.contracts.messages import (
    NO_PAYLOAD,
    Done,
    Hello,
    Predicted,
    Reply,
    ReplyBody,
    WamPredict,
    Welcome,
)
from rpent_box.transport.channel import ClientChannel, Incoming, ServerChannel
from rpent_box.transport.paths import BoxPaths, box_of_endpoint, runtime_dir_of_endpoint
from rpent_box.version import PROTOCOL_VERSION, __version__

PROPRIO = {"eef_position": (0.1, 0.2, 0.3), "gripper_qpos": (0.04, 0.04)}
WELCOME = Welcome(
    protocol=PROTOCOL_VERSION, backend="echo", kind="wam", state="ready", version=__version__
)


def serve(where: str) -> None:
    """Answer until killed. Prints the endpoint once it is bound.

    `where` is an endpoint, or `container:<box>` inside a box's worker container.
    """
    if where.startswith("container:"):
        paths: BoxPaths | None = BoxPaths.in_container(where.removeprefix("container:"))
        endpoint = paths.worker_endpoint if paths else where
    else:
        paths, endpoint = box_paths(where), where
    with ServerChannel.bind(endpoint, box=paths) as channel:
        print(channel.endpoint, flush=True)
        while True:
            incoming = channel.receive(60.0)
            if incoming is not None:
                reply = Reply(id=incoming.request.id, body=_answer(incoming))
                channel.send(incoming.connection, reply)


def box_paths(endpoint: str) -> BoxPaths | None:
    """Return the host's view of the box that `endpoint` lies in."""
    box = box_of_endpoint(endpoint)
    return BoxPaths.on_host(box, runtime_dir=runtime_dir_of_endpoint(endpoint)) if box else None


def _answer(incoming: Incoming) -> ReplyBody:
    body = incoming.request.body
    if isinstance(body, Hello):
        return WELCOME
    if not isinstance(body, WamPredict):
        return Done()
    actions = answer_to(incoming.tensors())
    incoming.check()
    return Predicted(actions=actions.tobytes(), shape=(actions.shape[0], actions.shape[1]))


class Client:
    """Asks over shared memory in a box, else over raw frames."""

    def __init__(self, endpoint: str, case: Case) -> None:
        self._channel = ClientChannel.connect(
            endpoint, client=f"bench-{case.cameras}", box=box_paths(endpoint), timeout_s=10.0
        )

    def ask(self, images: Images) -> Actions:
        """Send one observation, return its chunk."""
        question = WamPredict(
            instruction="pick up the black bowl and place it on the plate",
            embodiment="libero_7d",
            action_space="libero.osc_pose.delta.v1",
            proprio=PROPRIO,
            payload=NO_PAYLOAD,
        )
        reply, _ = self._channel.request(question, timeout_s=10.0, tensors=images)
        if not isinstance(reply, Predicted):
            raise TypeError(f"wanted a prediction, got {reply}")
        return np.frombuffer(reply.actions, np.float32).reshape(reply.shape)

    def close(self) -> None:
        self._channel.close()
