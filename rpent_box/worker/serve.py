# SPDX-License-Identifier: Apache-2.0
"""`python -m rpent_box.worker.serve BACKEND …`: one model, served until its end.

Exit codes: 0 drained, shut down or left alone by its owner; 1 failed; 2 wrong usage.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from types import FrameType

from rpent_box.errors import RpentBoxError, UsageError
from rpent_box.transport.channel import ServerChannel
from rpent_box.worker.arguments import WorkerArguments, parse_arguments
from rpent_box.worker.backend import Backend, LoadContext
from rpent_box.worker.inference import Say
from rpent_box.worker.service import Service

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def main(words: Sequence[str] | None = None) -> int:
    """Run one worker; return its exit code."""
    words = sys.argv[1:] if words is None else words
    try:
        arguments = parse_arguments(words)
        if isinstance(arguments, str):
            sys.stdout.write(arguments)
            return 0
        return serve(arguments)
    except RpentBoxError as error:
        sys.stderr.write(f"{error}\n")
        if "--verbose" in words:
            traceback.print_exception(error)
        return 2 if isinstance(error, UsageError) else 1
    except Exception:  # noqa: BLE001 - the model's threads must not keep the rest from ending
        traceback.print_exc()
        return 1


def serve(arguments: WorkerArguments) -> int:
    """Bind, say where, then load and serve until the end."""
    _start_logging(verbose=arguments.verbose)
    pin_threads(arguments.threads)
    # Bound before anything is loaded, so that healthz tells how the loading goes.
    with ServerChannel.bind(arguments.endpoint, box=arguments.box) as channel:
        sys.stdout.write(f"{channel.endpoint}\n")
        sys.stdout.flush()
        service = Service(_loader(arguments), arguments.spec, channel, arguments.service)
        _drain_on_signals(service)
        return service.run()


def pin_threads(threads: int) -> None:
    """Tell numerical libraries that are not loaded yet how many threads they may use."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)


def _loader(arguments: WorkerArguments) -> Callable[[Say], Backend]:
    def load(say: Say) -> Backend:
        context = LoadContext(
            platform=arguments.platform,
            checkpoint=arguments.checkpoint,
            threads=arguments.threads,
            device=arguments.device,
            say=say,
        )
        return arguments.spec.load(arguments.options, context)

    return load


def _start_logging(*, verbose: bool) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )
    # A crash in a model's native code leaves its Python stack in the log.
    faulthandler.enable(file=sys.stderr)


def _drain_on_signals(service: Service) -> None:
    def drain(number: int, _: FrameType | None) -> None:
        service.drain(f"got {signal.Signals(number).name}")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, drain)


def _end_now(code: int) -> None:
    """End without waiting for threads of the model that do not end by themselves."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _end_now(main())
