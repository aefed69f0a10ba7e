# SPDX-License-Identifier: Apache-2.0
"""Hugging Face caches, by their layout alone: find files in one, and make one of links.

    <hf_home>/hub/models--<owner>--<name>/refs/main                    the revision's id, a text
    <hf_home>/hub/models--<owner>--<name>/snapshots/<id>/<file>        a link to the file

Cosmos Policy asks its cache for two files of some gigabytes that it never reads on LIBERO: its
configuration resolves them when it is imported. So it is given a cache of our own, in which those
are empty and the others are links; nobody has to fetch them. Nothing is downloaded here.
"""

from __future__ import annotations

from pathlib import Path

from rpent_box.backends.checkpoint_files import require_file
from rpent_box.contracts.checkpoint import ExpectedFile
from rpent_box.errors import BadCheckpoint

BASE_MODEL = "nvidia/Cosmos-Predict2-2B-Video2World"
TOKENIZER = "tokenizer/tokenizer.pth"
"""The video autoencoder, in `BASE_MODEL`."""
TEXT_ENCODER = "google-t5/t5-11b"
NEVER_READ = {
    BASE_MODEL: "model-480p-16fps.pt",
    "nvidia/Cosmos-Policy-ALOHA-Predict2-2B": "Cosmos-Policy-ALOHA-Predict2-2B.pt",
}
"""cosmos_policy/config/experiment/cosmos_policy_experiment_configs.py, lines 148 and 404."""
_TEXT_ENCODER_FILES = ("config.json", "spiece.model")
_TEXT_ENCODER_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_REVISION = "0" * 40


def find_tokenizer(hf_home: Path) -> ExpectedFile:
    """Return the autoencoder's file. Raises `BadCheckpoint` with the command that fetches it."""
    hint = (
        f"Fetch it where there is network: HF_HOME={hf_home} hf download {BASE_MODEL} {TOKENIZER}. "
        "Another cache: --hf-home DIR"
    )
    snapshot = find_snapshot(hf_home, BASE_MODEL)
    if snapshot is None:
        raise BadCheckpoint(
            f"{hf_home} is no Hugging Face cache with {BASE_MODEL}: wanted {hf_home}/hub/"
            f"{_folder(BASE_MODEL)}/refs/main and its snapshot",
            hint=hint,
        )
    return require_file(snapshot / TOKENIZER, role="tokenizer", hint=hint)


def has_text_encoder(hf_home: Path) -> bool:
    """Tell whether T5-11B is in the cache, so that new instructions can be embedded."""
    snapshot = find_snapshot(hf_home, TEXT_ENCODER)
    if snapshot is None:
        return False
    there = {path.name for path in snapshot.iterdir() if path.exists()}
    return there.issuperset(_TEXT_ENCODER_FILES) and not there.isdisjoint(_TEXT_ENCODER_WEIGHTS)


def find_snapshot(hf_home: Path, repository: str) -> Path | None:
    """Return the folder of the revision that `main` was when it was fetched; None: not fetched."""
    folder = hf_home / "hub" / _folder(repository)
    try:
        revision = (folder / "refs" / "main").read_text().strip()
    except OSError:
        return None
    snapshot = folder / "snapshots" / revision
    # An empty id, or one with slashes, would name another folder.
    return snapshot if revision.isalnum() and snapshot.is_dir() else None


def make_cache(hf_home: Path, place: Path) -> None:
    """Make `place` the cache that Cosmos Policy is given, of links into `hf_home`."""
    for repository, name in NEVER_READ.items():
        (_new_snapshot(place, repository) / name).touch()
    link = _new_snapshot(place, BASE_MODEL) / TOKENIZER
    link.parent.mkdir()
    link.symlink_to(find_tokenizer(hf_home).path)
    if has_text_encoder(hf_home):
        encoder = Path("hub", _folder(TEXT_ENCODER))
        (place / encoder).symlink_to((hf_home / encoder).resolve())


def _new_snapshot(place: Path, repository: str) -> Path:
    folder = place / "hub" / _folder(repository)
    snapshot = folder / "snapshots" / _REVISION
    snapshot.mkdir(parents=True, exist_ok=True)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / "main").write_text(_REVISION)
    return snapshot


def _folder(repository: str) -> str:
    return "models--" + repository.replace("/", "--")
