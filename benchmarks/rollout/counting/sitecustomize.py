# SPDX-License-Identifier: Apache-2.0
"""Count what a process sends over ZeroMQ, into a file that bears its number.

Python imports this by its name when this folder is on the path; without `BENCH_SENT_BYTES`, the
folder of the counts, it does nothing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def count_sent(folder: Path) -> None:
    """Count from now on."""
    from zmq.sugar.socket import Socket

    send, sent = Socket.send, 0
    file = os.open(folder / str(os.getpid()), os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)

    def counted(self, data, *arguments, **options):
        nonlocal sent
        sent += len(data.buffer if hasattr(data, "buffer") else memoryview(data).cast("B"))
        os.pwrite(file, b"%20d" % sent, 0)
        return send(self, data, *arguments, **options)

    Socket.send = counted


if "BENCH_SENT_BYTES" in os.environ and any("rpent_box" in word for word in sys.orig_argv):
    count_sent(Path(os.environ["BENCH_SENT_BYTES"]))
