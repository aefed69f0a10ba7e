# SPDX-License-Identifier: Apache-2.0
"""What a cosmos3 worker can know before it speaks to the service: its settings and statistics."""

from __future__ import annotations

from pathlib import Path

from rpent_box.backends.adapter import adapter_for
from rpent_box.backends.checkpoint_files import require_file
from rpent_box.backends.cosmos3.adapter import ADAPTERS
from rpent_box.backends.cosmos3.options import Cosmos3Options
from rpent_box.backends.cosmos3.settings import Settings, check_endpoint, settings_from
from rpent_box.backends.cosmos3.statistics import read_denormaliser
from rpent_box.contracts.checkpoint import ExpectedFile, Inspection

_WHERE = "Correct it in the configuration, or give --action-stats PATH."


def inspect(options: Cosmos3Options, checkpoint: Path, platform: str) -> Inspection:
    """Check settings and statistics. `checkpoint` only names what the service has loaded.

    Whether the service serves it is asked by the worker. Raises `BadOption` and `BadCheckpoint`.
    """
    adapter_for(ADAPTERS, platform, backend="cosmos3")
    check_endpoint(options.sglang_endpoint)
    settings = settings_from(options)
    files = find_files(options, settings)
    read_denormaliser(settings.action_stats, settings.action_normalization)
    return Inspection(
        files=files,
        facts={
            "served_model": str(checkpoint),
            "action_horizon": str(settings.action_horizon),
            "execute_steps": str(settings.num_action_chunks),
            "normalisation": settings.action_normalization,
            "num_inference_steps": str(settings.num_inference_steps),
            "size": settings.size,
            "domain_name": settings.domain_name,
            "action_view_point": settings.action_view_point,
            "action_fps": f"{settings.action_fps:g}",
            "fps": str(settings.fps),
            "seed": str(settings.seed),
            "batching_max_size": str(settings.batching_max_size),
        },
    )


def find_files(options: Cosmos3Options, settings: Settings) -> tuple[ExpectedFile, ...]:
    """Return the files that decide the actions. Raises `BadCheckpoint`."""
    files = []
    if settings.action_normalization != "none" and settings.action_stats is not None:
        files.append(require_file(settings.action_stats, role="action statistics", hint=_WHERE))
    if options.config is not None:
        files.append(require_file(options.config, role="configuration"))
    return tuple(files)
