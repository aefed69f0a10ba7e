# SPDX-License-Identifier: Apache-2.0
"""RLDX's own server as a child of this worker."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from rpent_box.backends.native_service import Listener, NativeService, hold_port
from rpent_box.backends.rldx.client import RldxClient
from rpent_box.backends.rldx.options import RldxOptions
from rpent_box.backends.rldx.seeded_server import TOKEN
from rpent_box.errors import RpentBoxError
from rpent_box.worker.backend import Device

NAME = "RLDX server"
MODULE = "rpent_box.backends.rldx.seeded_server"
_PING_S = 0.8


def start_server(
    options: RldxOptions,
    checkpoint: Path,
    device: Device,
    say: Callable[[str], None],
    held: ExitStack,
) -> tuple[str, str, Callable[[], None]]:
    """Start it and wait until it answers; it ends with `held`.

    Returns its endpoint, the token that it asks for, and what raises `ProgramDied` with its last
    log lines once it has ended. Raises that, `LaunchError` or `StartTimeout`.
    """
    # Whoever shares this machine could else end it, or clear everyone's memory. It goes through the
    # environment, which nobody but this user may read, as everyone may a command line.
    token = secrets.token_hex(16)
    with hold_port() as port:
        server = held.enter_context(
            NativeService.start(
                NAME,
                server_words(options, checkpoint, device, port),
                environment={**server_environment(options), TOKEN: token},
            )
        )
        where = server.wait_ready(
            partial(answers, token=token), timeout_s=options.start_timeout_s, port=port, say=say
        )
    return _endpoint(where), token, server.require_alive


def server_words(
    options: RldxOptions, checkpoint: Path, device: Device, port: int
) -> tuple[str, ...]:
    """Return the server's command line (rldx/eval/run_rldx_server.py, `ServerConfig`)."""
    return (
        sys.executable,
        "-m",
        MODULE,
        *("--model-path", str(checkpoint)),
        *("--embodiment-tag", options.embodiment),
        *("--device", device),
        *("--host", "127.0.0.1"),
        *("--port", str(port)),
        *("--compile", options.compile),
        *("--rtc-inference-mode", options.rtc),
        *("--rtc-inference-delay", str(options.rtc_delay)),
        # The server continues a chunk behind the steps that it takes for executed.
        *("--rtc-inference-exec-horizon", str(options.execute_steps)),
        "--no-deactivate-memory" if options.memory else "--deactivate-memory",
    )


def server_environment(options: RldxOptions) -> dict[str, str]:
    """Return what the server is told through its environment."""
    environment = {
        "RLDX_ATTN_IMPL": options.attention,
        "NO_ALBUMENTATIONS_UPDATE": "1",
        # What it reads besides is trusted with code: it comes from this machine, or not at all.
        "HF_HUB_OFFLINE": "1",
    }
    if options.hf_home:
        environment["HF_HOME"] = options.hf_home
    return environment


def answers(where: Listener, *, token: str = "") -> bool:
    """Return whether an RLDX server that takes `token` answers there."""
    with RldxClient(_endpoint(where), token=token, timeout_s=_PING_S) as client:
        try:
            client.ping(timeout_s=_PING_S)
        except RpentBoxError:
            return False
    return True


def _endpoint(where: Listener) -> str:
    host = f"[{where.host}]" if ":" in where.host else where.host
    return f"tcp://{host}:{where.port}"
