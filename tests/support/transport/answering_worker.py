# SPDX-License-Identifier: Apache-2.0
"""A worker that answers in a thread, and what a client asks it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from rpent_box.contracts.faults import fault_from
from rpent_box.contracts.messages import (
    NO_PAYLOAD,
    Done,
    Hello,
    Predicted,
    Reply,
    ReplyBody,
    VlaPredict,
    WamPredict,
    Welcome,
)
from rpent_box.errors import RpentBoxError
from rpent_box.transport.channel import Incoming, ServerChannel
from rpent_box.transport.ring import Tensor
from rpent_box.transport.wire import Frame
from rpent_box.version import PROTOCOL_VERSION

PREDICT = WamPredict(
    instruction="lift",
    embodiment="libero_7d",
    action_space="libero.osc_pose.delta.v1",
    proprio={"eef_position": (0.1, 0.2, 0.3)},
    payload=NO_PAYLOAD,
)


def images(value: int, size: int = 160) -> dict[str, Tensor]:
    return {
        "primary": np.full((size, size, 3), value, np.uint8),
        "wrist": np.full((size, size, 3), value + 1, np.uint8),
    }


Answering = Callable[[ServerChannel, Incoming], None]


def welcome() -> Welcome:
    return Welcome(
        protocol=PROTOCOL_VERSION, backend="echo", kind="wam", state="ready", version="0"
    )


def answer(channel: ServerChannel, incoming: Incoming) -> None:
    """Answer as a worker would; a prediction returns each image's mean and the images inverted."""
    frames: Sequence[Frame] = ()
    body: ReplyBody
    try:
        request = incoming.request.body
        if isinstance(request, Hello):
            body = welcome()
        elif isinstance(request, WamPredict | VlaPredict):
            body, frames = _predict(channel, incoming)
        else:
            body = Done()
    except RpentBoxError as error:
        body = fault_from(error)
    channel.send(incoming.connection, Reply(id=incoming.request.id, body=body), frames)


def _predict(channel: ServerChannel, incoming: Incoming) -> tuple[Predicted, Sequence[Frame]]:
    tensors = incoming.tensors()
    means = np.array([[tensor.mean() for tensor in tensors.values()]], np.float32)
    future = {name: 255 - tensor for name, tensor in tensors.items()}
    incoming.check()
    payload, frames = channel.pack(incoming.connection, future)
    actions = means.tobytes()
    return Predicted(actions=actions, shape=means.shape, payload=payload), frames


@contextmanager
def answering(channel: ServerChannel, how: Answering = answer) -> Iterator[ServerChannel]:
    """Serve `channel` in a thread until the block ends."""
    over = threading.Event()

    def loop() -> None:
        while not over.is_set():
            incoming = channel.receive(5.0)
            if incoming is not None:
                how(channel, incoming)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield channel
    finally:
        over.set()
        channel.wake()
        thread.join(10.0)
        channel.close()
