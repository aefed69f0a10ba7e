# SPDX-License-Identifier: Apache-2.0
"""How stages are run from the command line: shown, with a deadline, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from rpent_box.cli.mini_progress import watching_stages
from rpent_box.cli.surroundings import runtime_dir
from rpent_box.evaluate.stages.stage import Stage

STAGE_HOURS = 24.0


class Work(Struct, frozen=True, kw_only=True):
    """What all stages of a command have in common."""

    quiet: bool
    timeout_s: float
    """Of each stage."""
    command: tuple[str, ...]
    runtime_dir: str | None

    @classmethod
    def here(
        cls, environ: Mapping[str, str], *, quiet: bool, hours: float, command: Sequence[str]
    ) -> Work:
        return cls(
            quiet=quiet,
            timeout_s=hours * 3600,
            command=tuple(command),
            runtime_dir=runtime_dir(environ),
        )

    def run(self, stage: Stage) -> None:
        """Run a stage to its end. Raises as `run_stage` does."""
        # Late: it reaches what boxes need, which `--help` should not wait for.
        from rpent_box.evaluate.stages.running import run_stage

        with watching_stages(quiet=self.quiet) as watcher:
            run_stage(
                stage,
                watcher,
                timeout_s=self.timeout_s,
                command=self.command,
                runtime_dir=self.runtime_dir,
            )
