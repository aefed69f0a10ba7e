# SPDX-License-Identifier: Apache-2.0
"""Tokenizers and processors that a model loads through transformers: data, and never a program."""

from __future__ import annotations

from pathlib import Path

from rpent_box.backends.checkpoint_files import read_json
from rpent_box.errors import BadCheckpoint

SETTINGS = "*config.json"
"""The files in which `auto_map` may name code: config.json, tokenizer_config.json, …"""


def require_no_code(folder: Path, *, role: str) -> None:
    """Refuse files that bring, or name, a program. Raises `BadCheckpoint`.

    For models that load them with `trust_remote_code=True`: transformers then runs what `auto_map`
    names, beside the files or in somebody's repository.
    """
    if code := sorted(folder.glob("*.py")):
        raise BadCheckpoint(
            f"{code[0]} is a program, which loading the {role} could run",
            hint=f"Read it; the model's own files have none. Remove it: rm {code[0]}",
        )
    for path in sorted(folder.glob(SETTINGS)):
        named = read_json(path, role=role).get("auto_map")
        if named:
            raise BadCheckpoint(
                f"{path} names a program in its auto_map, which loading the {role} would run: "
                f"{named}",
                hint="The model's own files have none. Get them from where the model is published.",
            )
