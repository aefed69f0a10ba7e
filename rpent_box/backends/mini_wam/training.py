# SPDX-License-Identifier: Apache-2.0
"""Make the shipped weights from nothing: `python -m rpent_box.backends.mini_wam.training`.

Runs the stages below one after the other, each a command of its own. Each goes on where it was
stopped, so this does too. The simulator's Python and the one with PyTorch may be two.

    demonstrate ─▶ round0 ─▶ train ─▶ export ─▶ student
                      │                            │ acts, the expert labels
                      │      round1 ◀─ demonstrate ┘
                      └────────┴─▶ train ─▶ export ─▶ checkpoint
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from rpent_box.errors import ProgramDied, RpentBoxError, StartTimeout

STAGE_TIMEOUT_S = 12 * 3600.0
PACKAGE = "rpent_box.backends.mini_wam"
DEMONSTRATE = "rpent_box_libero.teaching.demonstrate"


class Stage(Struct, frozen=True, kw_only=True):
    """One command."""

    title: str
    python: str
    module: str
    arguments: tuple[str, ...]

    def command(self) -> list[str]:
        return [self.python, "-m", self.module, *self.arguments]


def plan(out: Path, *, simulator_python: str, workers: int) -> list[Stage]:
    """Return the stages of the recipe in order."""
    round0, round1 = str(out / "round0"), str(out / "round1")
    student, final = out / "student", out / "final"

    def demonstrate(title: str, *arguments: str) -> Stage:
        words = (*arguments, "--workers", str(workers))
        return Stage(title=title, python=simulator_python, module=DEMONSTRATE, arguments=words)

    def compute(title: str, program: str, *arguments: str) -> Stage:
        return Stage(
            title=title,
            python=sys.executable,
            module=f"{PACKAGE}.{program}",
            arguments=arguments,
        )

    def export(training: Path) -> Stage:
        folder = str(training / "checkpoint")
        return compute("export", "export", "--training", str(training), "--out", folder)

    taught_by_student = ("--student", "mini-wam", "--checkpoint", str(student / "checkpoint"))
    return [
        demonstrate("expert acts", "--out", round0, "--episodes", "136", "--seed", "1"),
        compute(
            "train a student", "train", "--data", round0, "--out", str(student), "--steps", "1000"
        ),
        export(student),
        demonstrate(
            "student acts, expert labels",
            *("--out", round1, "--episodes", "112", "--seed", "2"),
            *taught_by_student,
        ),
        compute(
            "train on both",
            "train",
            *("--data", round0, round1, "--out", str(final), "--steps", "2000"),
        ),
        export(final),
    ]


def run(stages: Sequence[Stage]) -> None:
    """Run the stages. Raises `ProgramDied` when one fails and `StartTimeout` when one hangs."""
    for number, stage in enumerate(stages, 1):
        begun = time.monotonic()
        sys.stdout.write(f"{number}/{len(stages)} {stage.title}\n")
        sys.stdout.flush()
        try:
            status = subprocess.run(stage.command(), timeout=STAGE_TIMEOUT_S).returncode
        except subprocess.TimeoutExpired as error:
            raise StartTimeout(f"`{stage.title}` took more than {STAGE_TIMEOUT_S:.0f} s") from error
        if status:
            raise ProgramDied(
                f"`{stage.title}` ended with status {status}: {' '.join(stage.command())}",
                hint="Its own words are above. The same command goes on where it stopped.",
            )
        sys.stdout.write(f"{number}/{len(stages)} done in {time.monotonic() - begun:.0f} s\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and run the recipe."""
    parser = argparse.ArgumentParser(prog="training", description=__doc__)
    parser.add_argument("--out", default="runs/train-mini-wam", help="folder for everything")
    parser.add_argument(
        "--simulator-python",
        default=sys.executable,
        help="a Python with rpent-box-libero[simulator] and onnxruntime (default: this one)",
    )
    parser.add_argument("--workers", type=int, default=2, help="simulators at once")
    options = parser.parse_args(arguments)
    out = Path(options.out)
    try:
        run(plan(out, simulator_python=options.simulator_python, workers=options.workers))
    except RpentBoxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"the checkpoint: {out / 'final' / 'checkpoint'}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
