# SPDX-License-Identifier: Apache-2.0
"""The backbone's configuration and tokenizer, in a Hugging Face cache or a folder of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rpent_box.backends.checkpoint_files import find_file, find_optional_file, require_folder
from rpent_box.backends.processor_files import require_no_code
from rpent_box.contracts.checkpoint import ExpectedFile
from rpent_box.errors import BadCheckpoint

WANTED = {
    "config.json": "backbone config",
    "preprocessor_config.json": "image processor config",
    "tokenizer_config.json": "tokenizer config",
}
BESIDES = {
    "tokenizer.json": "tokenizer",
    "vocab.json": "tokenizer",
    "merges.txt": "tokenizer",
    "chat_template.json": "chat template",
    "chat_template.jinja": "chat template",
    "video_preprocessor_config.json": "video processor config",
}


def backbone_files(hf_home: str, name: str) -> Iterator[ExpectedFile]:
    """Return the files of the model called `name`; none when it is not known where they are.

    Raises `BadCheckpoint` when one is missing, since a worker has no network to fetch it, and for
    one that names a program.
    """
    folder = _folder(hf_home, name)
    if folder is None:
        return
    # RLDX loads them with trust_remote_code=True (rldx/model/modules/backbone/adapter.py).
    require_no_code(folder, role="backbone")
    for file, role in WANTED.items():
        yield find_file(folder, file, role=role)
    besides = [find_optional_file(folder, file, role=role) for file, role in BESIDES.items()]
    found = [file for file in besides if file is not None]
    if not any(file.role == "tokenizer" for file in found):
        raise BadCheckpoint(
            f"{folder} has no tokenizer: neither tokenizer.json nor vocab.json and merges.txt"
        )
    yield from found


def _folder(hf_home: str, name: str) -> Path | None:
    if Path(name).is_absolute():
        return require_folder(Path(name), role="backbone")
    if not hf_home:
        return None
    home = require_folder(Path(hf_home), role="Hugging Face cache")
    place = home / "hub" / f"models--{name.replace('/', '--')}"
    revision = place / "refs" / "main"
    snapshots = place / "snapshots"
    if revision.is_file():
        return require_folder(snapshots / revision.read_text().strip(), role="backbone")
    raise BadCheckpoint(
        f"{home} does not hold {name}, whose configuration and tokenizer the model reads",
        hint=f"Where there is a network: HF_HOME={home} hf download {name} --include '*.json' "
        "'*.txt' '*.jinja'",
    )
