# SPDX-License-Identifier: Apache-2.0
"""Fill a disk of a few pages in the middle of an evaluation, make room, resume: `FOLDER EVERY_S`.

Runs in a mount namespace of its own, as its root. Prints how many rows there were when the disk was
full, the error, the status then, and how many rows and keys there are at the end.
"""

import json
import subprocess
import sys
from pathlib import Path

from eval_record_parts import PLAN, STARTED, config, played, task
from msgspec.structs import replace

from rpent_box.errors import OutputError
from rpent_box.evaluate.scale import record as module
from rpent_box.evaluate.scale.manifest import read_eval_manifest
from rpent_box.evaluate.scale.plan import key_of
from rpent_box.evaluate.scale.record import EvalRecord
from rpent_box.sim.results import read_results

BIG = replace(PLAN, tasks=(task("toy_easy", 0, 200),), seeds=(7,))


def mount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)


def add_until_full(record: EvalRecord) -> str:
    try:
        with record:
            record.begin(STARTED)
            for job in record.left:
                record.add(played(job))
    except OutputError as error:
        return str(error)
    return ""


def main(folder: Path, every_s: float) -> None:
    module.WRITE_EVERY_S = every_s
    mount(folder, "size=64k")
    record = EvalRecord.create(BIG, config(folder))
    error = add_until_full(record)
    rows = read_results(record.run_dir)
    status = read_eval_manifest(record.run_dir).status
    mount(folder, "remount,size=4m")
    with EvalRecord.resume(record.run_dir, BIG, config(folder)) as again:
        left = len(again.left)
        again.begin(STARTED)
        for job in again.left:
            again.add(played(job))
    finished = read_results(record.run_dir)
    said = {
        "error": error,
        "rows": len(rows),
        "known": len(record.rows),
        "status": status,
        "left": left,
        "finished": len(finished),
        "keys": len({key_of(row) for row in finished}),
        "end": read_eval_manifest(record.run_dir).status,
        "files": sorted(path.name for path in record.run_dir.iterdir()),
    }
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
