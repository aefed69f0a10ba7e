# SPDX-License-Identifier: Apache-2.0
"""How a simulator reaches a worker, and what is left to remove when it dies in between."""

from __future__ import annotations

import secrets
from typing import Literal

from rpent_box.client.model_client import ModelClient
from rpent_box.contracts.control_messages import ConnectWorker
from rpent_box.contracts.meta import PlatformMeta
from rpent_box.sim.guard import remove_segments
from rpent_box.transport.paths import BoxPaths, runtime_dir_of_endpoint

CONNECT_TIMEOUT_S = 10.0


class WorkerConnector:
    """Connects `ModelClient`s under a name that no other process uses."""

    def __init__(self, *, view: Literal["host", "container"]) -> None:
        """`view` is how this process sees the boxes' paths."""
        self._view = view
        self._client = f"sim-{secrets.token_hex(4)}"
        self._paths: BoxPaths | None = None

    def connect(self, wanted: ConnectWorker, platform: PlatformMeta) -> ModelClient:
        """Connect to the worker, fetch its meta, take the memory for the platform's frames.

        Raises what `ModelClient.connect` raises.
        """
        self._paths = self._box_paths(wanted)
        return ModelClient.connect(
            wanted.endpoint,
            client=self._client,
            box=self._paths,
            timeout_s=CONNECT_TIMEOUT_S,
            prediction_timeout_s=wanted.prediction_timeout_s,
            image_size=platform.image_size,
        )

    def remove_segments(self) -> None:
        """Unlink this process's rings by name. From any thread; for the end only."""
        paths = self._paths
        if paths is not None:
            remove_segments(paths, self._client)

    def _box_paths(self, wanted: ConnectWorker) -> BoxPaths | None:
        if wanted.box is None:
            return None
        if self._view == "container":
            return BoxPaths.in_container(wanted.box)
        return BoxPaths.on_host(wanted.box, runtime_dir=runtime_dir_of_endpoint(wanted.endpoint))
