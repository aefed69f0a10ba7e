# SPDX-License-Identifier: Apache-2.0
"""A stand-in for upstream's server program: the same command line, a counting model."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from rldx_native_server import CountingModel, NativeServer, modality  # noqa: E402


class Telling(CountingModel):
    """Tells its process id where the base's forward motion would be."""

    def _answer(self, observation, options, count):
        parts = super()._answer(observation, options, count)
        parts["base_motion"][:] = os.getpid()
        return parts


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("model-path", "host", "embodiment-tag", "device", "compile"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--port", type=int, required=True)
    for name in ("mode", "delay", "exec-horizon"):
        parser.add_argument(f"--rtc-inference-{name}", required=True)
    parser.add_argument("--deactivate-memory", action=argparse.BooleanOptionalAction)
    arguments = parser.parse_args()
    if Path(arguments.model_path).name == "broken":
        sys.stderr.write("no such weights\n")
        sys.exit(3)
    token = os.environ["RPENT_BOX_RLDX_TOKEN"]
    NativeServer(Telling(modality()), port=arguments.port, token=token)
    sys.stderr.write("serving\n")
    while True:
        time.sleep(1.0)


if __name__ == "__main__":
    main()
