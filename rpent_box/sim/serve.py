# SPDX-License-Identifier: Apache-2.0
"""The simulator's program: `python -m rpent_box.sim.serve PLATFORM --endpoint ipc://…`."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from rpent_box.errors import RpentBoxError, UsageError
from rpent_box.options import OptionParser, add_options, options_from
from rpent_box.plugins import find_platform, platform_names
from rpent_box.sim.connecting import WorkerConnector
from rpent_box.sim.control import ControlServer
from rpent_box.sim.guard import end_with_owner, remove_socket
from rpent_box.sim.platform import Platform, PlatformPlugin
from rpent_box.sim.server import SimServer

PROGRAM = "python -m rpent_box.sim.serve"


def main(words: Sequence[str] | None = None) -> int:
    """Serve until asked to close, SIGTERM, or the owner's end. Return the exit code."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s"
    )
    try:
        return _serve(list(sys.argv[1:] if words is None else words))
    except RpentBoxError as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, UsageError) else 1


def _serve(words: list[str]) -> int:
    parser = _parser()
    plugin = add_platform(parser, words)
    if plugin is None or "--help" in words or "-h" in words:
        parser.print_help()
        return 0
    known = parser.parse_args(words)
    options = options_from(plugin.options, vars(known))
    set_environment(plugin, threads=known.threads)
    connector = WorkerConnector(view=known.view)

    def open_platform() -> Platform:
        return plugin.open(options)

    def last_act() -> None:
        connector.remove_segments()
        remove_socket(known.endpoint)

    # Bound before the simulator is imported, so that the host sees the phases of the start.
    with ControlServer(known.endpoint) as control:
        if known.lease is not None:
            end_with_owner(known.lease, last_act=last_act)
        server = SimServer(open_platform, control, connector.connect)
        signal.signal(signal.SIGTERM, end_cleanly)
        try:
            return server.run()
        finally:
            # It ends anyway: another signal would only cut the cleaning short.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            server.close()


def add_platform(parser: OptionParser, words: Sequence[str]) -> PlatformPlugin | None:
    """Return the platform that `words` begin with, its options added to `parser`.

    None when only help is asked for. The platform comes first: the other options depend on it.
    """
    if words and not words[0].startswith("-"):
        plugin = find_platform(words[0])
        add_options(parser.add_argument_group(f"{plugin.name}'s own options"), plugin.options)
        return plugin
    if "--help" in words or "-h" in words:
        return None
    raise UsageError(
        "which platform shall be simulated? Its name comes first",
        hint=f"Installed: {', '.join(platform_names()) or 'none'}. See: {parser.prog} --help",
    )


def set_environment(plugin: PlatformPlugin, *, threads: int | None) -> None:
    """Set what the simulator reads when it is imported; what the caller has set wins."""
    for name, value in plugin.environment.items():
        os.environ.setdefault(name, value)
    if threads is not None:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, str(threads))


def end_cleanly(number: int, _frame: FrameType | None) -> None:
    """Unwind the main thread, so that every `with` block closes what it holds."""
    # A second signal must not cut the unwinding short.
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(0)


def _parser() -> OptionParser:
    parser = OptionParser(prog=PROGRAM, description=__doc__, allow_abbrev=False)
    parser.add_argument("platform", metavar="PLATFORM")
    parser.add_argument("--endpoint", required=True, help="where to listen for the host")
    parser.add_argument("--box", help="the box that this simulator belongs to; for people")
    parser.add_argument(
        "--view",
        choices=("host", "container"),
        default="host",
        help="how this process sees the boxes' paths",
    )
    parser.add_argument("--lease", type=Path, help="the owner's lock file: when it is let go, end")
    parser.add_argument("--threads", type=int, help="CPU threads for the simulator's libraries")
    return parser


if __name__ == "__main__":
    sys.exit(main())
