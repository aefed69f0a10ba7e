# SPDX-License-Identifier: Apache-2.0
"""Copies what a container says into the run's log file, while it says it."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import IO

import docker
import requests
from docker.errors import DockerException

from rpent_box.launch.logs import open_log

_logger = logging.getLogger(__name__)


class LogFollower:
    """A thread that ends when the container does."""

    def __init__(self, container_id: str, socket: Path, log: str) -> None:
        """Start to follow. Raises `OutputError` when `log` cannot be written."""
        self._container_id = container_id
        self._socket = socket
        self._thread = threading.Thread(
            target=self._follow, args=(open_log(log),), name="container log", daemon=True
        )
        self._thread.start()

    def wait(self, timeout_s: float) -> None:
        """Wait until all that an ended container has said is written."""
        self._thread.join(timeout_s)

    def _follow(self, log: IO[bytes]) -> None:
        # A connection of its own: the SDK's are not made for two threads.
        with log:
            try:
                client = docker.APIClient(base_url=f"unix://{self._socket}", version="auto")
                for part in client.logs(self._container_id, stream=True, follow=True):
                    log.write(part)
            except (DockerException, requests.RequestException, OSError) as error:
                _logger.warning("the log of container %s ends early: %s", self._container_id, error)
