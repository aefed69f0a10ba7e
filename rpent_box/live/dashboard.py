# SPDX-License-Identifier: Apache-2.0
"""The live page of an evaluation, served on this machine's loopback by a thread.

state = LiveState()
with serve_dashboard(state) as url:
    run_evaluation(config, EvalWatchers([display, state]))
    state.end("complete")
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from rpent_box.errors import UsageError
from rpent_box.live.state import LiveState

TOKEN_BYTES = 32


@contextmanager
def serve_dashboard(state: LiveState, *, port: int = 0) -> Iterator[str]:
    """Serve the page while the block runs; yield its address, which carries the token.

    Listens on 127.0.0.1 only; port 0 takes a free one. Whoever has the address may look: print it
    for the person who asked, and write it into no file. On leaving, `state` ends, open pages get
    the last state and keep it, and the server is gone within about a second. Raises `SocketBusy`,
    and `UsageError` when the extra `dashboard` is not installed.
    """
    try:
        from rpent_box.live.app import PAGE_FILES, Pages
        from rpent_box.live.cameras import Cameras
        from rpent_box.live.server import Server
    except ImportError as error:
        raise missing(error) from error
    cameras = Cameras(state)
    pages = Pages(state, cameras)
    token = secrets.token_urlsafe(TOKEN_BYTES)
    with Server(
        pages.app(),
        what="dashboard",
        port=port,
        token=token,
        public=PAGE_FILES,
        on_close=pages.close,
    ) as server:
        state.look_on(cameras.offer)
        try:
            # What follows the # stays in the browser: no request, log or referrer has it.
            yield f"{server.url}/#token={token}"
        finally:
            state.look_on(None)
            state.end()


def missing(error: ImportError) -> UsageError:
    """Return what to raise when a package of the extra is not installed."""
    return UsageError(
        f"the dashboard and the metrics need {error.name or 'a package'}, which is not installed",
        hint="Install it: pip install 'rpent-box[dashboard]'",
    )
