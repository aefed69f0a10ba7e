# SPDX-License-Identifier: Apache-2.0
"""Says what a program may do where it runs, as one JSON line, then stays."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    found = {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "capabilities": status["CapEff"].strip(),
        "bounding": status["CapBnd"].strip(),
        "no_new_privileges": status["NoNewPrivs"].strip(),
        "interfaces": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "writable": [path for path in sys.argv[2:] if _is_writable(Path(path))],
        "init": Path("/proc/1/comm").read_text().strip(),
        "home": os.environ["HOME"],
    }
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    while True:
        time.sleep(3600)


def _is_writable(directory: Path) -> bool:
    probe = directory / "probe"
    try:
        probe.write_text("x")
        probe.unlink()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
