# SPDX-License-Identifier: Apache-2.0
"""`/metrics` over HTTP, for Prometheus: without a token, so on loopback unless asked otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rpent_box.live.dashboard import missing
from rpent_box.live.state import LiveState
from rpent_box.live.worker_figures import WorkerFigures

LOOPBACK = "127.0.0.1"


@contextmanager
def serve_metrics(
    source: LiveState | WorkerFigures, *, host: str = LOOPBACK, port: int = 0
) -> Iterator[str]:
    """Serve metrics while the block runs; yield their address, e.g. `http://127.0.0.1:9400/metrics`.

    `source` is an evaluation's state, or a worker's figures: the worker is asked whenever somebody
    asks for metrics, and need not be there yet. Whoever reaches `host` can read them; port 0 takes
    a free one. Raises `SocketBusy`, and `UsageError` when the extra `dashboard` is not installed.
    """
    try:
        from starlette.applications import Starlette

        from rpent_box.live.metrics import metrics_route
        from rpent_box.live.server import Server
    except ImportError as error:
        raise missing(error) from error
    app = Starlette(routes=[metrics_route(source)])
    with Server(app, what="metrics", host=host, port=port) as server:
        yield f"{server.url}/metrics"
