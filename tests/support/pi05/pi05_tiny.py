# SPDX-License-Identifier: Apache-2.0
"""Make a checkpoint for `pi05_tiny_config.py`: `python pi05_tiny.py FOLDER`, in pi05's own Python.

Random weights, a sentencepiece vocabulary trained on a few sentences, and statistics like LIBERO's.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

STATE = {
    "q01": [-0.4, -0.4, 0.9, 2.5, -1.0, -1.0, 0.0, -0.04],
    "q99": [0.2, 0.4, 1.4, 3.7, 1.0, 1.0, 0.04, 0.0],
}
ACTIONS = {
    "q01": [-0.75, -0.8, -0.9, -0.1, -0.2, -0.35, -1.0],
    "q99": [0.9, 0.85, 0.9, 0.15, 0.2, 0.3, 1.0],
}
SENTENCES = (
    "pick up the black bowl and place it on the plate",
    "open the middle drawer of the cabinet",
    "put the cream cheese in the basket",
    "turn on the stove and put the moka pot on it",
    "Task: push the wine bottle to the front of the rack, State: 0 12 255 87 34 69;",
    "Action: 1 2 3 4 5 6 7 8 9 10",
)


def make(folder: Path, *, seed: int = 0) -> None:
    """Write weights, statistics and tokenizer into `folder`."""
    # Neither is needed to write a file, and both take long.
    os.environ.update(JAX_PLATFORMS="cpu", TORCHDYNAMO_DISABLE="1")
    import safetensors.torch
    import torch

    tiny = _tiny_config()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = tiny.build(tiny.CONFIGS[0].model)
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_model(model, str(folder / "model.safetensors"))
    write_statistics(folder / "assets/physical-intelligence/libero/norm_stats.json")
    _write_tokenizer(folder / "big_vision/paligemma_tokenizer.model", tiny.VOCABULARY)


def write_statistics(path: Path) -> None:
    """Write statistics in openpi's form."""
    path.parent.mkdir(parents=True, exist_ok=True)
    groups = {
        name: {"mean": [0.0] * len(group["q01"]), "std": [1.0] * len(group["q01"]), **group}
        for name, group in (("state", STATE), ("actions", ACTIONS))
    }
    path.write_text(json.dumps({"norm_stats": groups}))


def _write_tokenizer(path: Path, size: int) -> None:
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        byte_fallback=True,
        minloglevel=2,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.getvalue())


def _tiny_config() -> Any:
    """Import the file beside this one, whatever the import path is."""
    path = Path(__file__).with_name("pi05_tiny_config.py")
    spec = importlib.util.spec_from_file_location("pi05_tiny_config", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    make(Path(sys.argv[1]))
