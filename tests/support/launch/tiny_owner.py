# SPDX-License-Identifier: Apache-2.0
"""Owns a box with two tiny programs until it is killed: `python -m tiny_owner process|docker DIR`.

Prints one JSON line: the box's id and the programs' identifiers.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path

from tiny_boxes import in_container, tiny_program, wait_for

from rpent_box.launch.box import Box
from rpent_box.launch.choose import choose_launcher
from rpent_box.launch.program import Running


def _is_ready(running: Running) -> bool:
    return "ready" in running.last_log_lines()


def main() -> None:
    launcher_name, directory, *more = sys.argv[1:]
    logs = Path(directory) / "logs"
    launcher, _ = choose_launcher("docker" if launcher_name == "docker" else "process")
    with Box.create(Path(directory) / "rt") as box:
        seen = box.paths if launcher.view == "host" else type(box.paths).in_container(box.id)
        base = [box.id, *more] if "--stubborn" in more else [box.id, "--lease", str(seen.lease)]
        running = []
        for role in ("worker", "simulator"):
            words = list(base)
            if role == "simulator":
                name = box.paths.segment_name(f"{role}-1")
                words += ["--segment", name, "--grants", str(seen.grants)]
                words += ["--socket", str(seen.sockets / f"{role}.sock")]
            extra = (
                in_container(box.paths, grants_read_only=role == "worker")
                if launcher.view == "container"
                else {}
            )
            program = tiny_program(*words, log=logs / f"{role}.log", role=role, **extra)
            running.append(launcher.start(program, box))
        for one in running:
            wait_for(partial(_is_ready, one), within_s=30, what="a tiny program")
        ids = [one.identifier for one in running]
        sys.stdout.write(json.dumps({"box": box.id, "programs": ids}) + "\n")
        sys.stdout.flush()
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
