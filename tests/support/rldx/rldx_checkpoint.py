# SPDX-License-Identifier: Apache-2.0
"""A folder that looks like an RLDX checkpoint, with a few bytes of weights."""

from __future__ import annotations

import json
import struct

from rldx_native_server import ACTION, STATE, modality

CONFIG = {
    "model_type": "RLDX-1",
    "model_name": "Qwen/Qwen3-VL-8B-Instruct",
    "action_horizon": 16,
    "use_memory": False,
    "memory_stride": 16,
    "use_video": True,
    "video_length": 4,
    "video_stride": 2,
    "rtc_training_max_delay": 0,
    "hidden_size": 1024,
}


def make_checkpoint(folder, *, tag="general_embodiment", processor=True, config=None, **modalities):
    """Write the files that `PolicyLoader` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "config.json", {**CONFIG, **(config or {})})
    write_weights(folder / "model.safetensors")
    place = folder / "processor" if processor else folder
    place.mkdir(exist_ok=True)
    configs = {
        name: {"delta_indices": deltas, "modality_keys": keys, "action_configs": None}
        for name, (deltas, keys) in modality(**modalities).items()
    }
    settings = {"modality_configs": {tag: configs}, "use_percentiles": True}
    write(place / "processor_config.json", {"processor_kwargs": settings})
    write(place / "statistics.json", {tag: statistics()})
    write(place / "embodiment_id.json", {tag: 0})
    return folder


def statistics():
    def of(widths):
        return {
            name: {
                **{low: [-1.0] * width for low in ("min", "q01")},
                **{high: [1.0] * width for high in ("max", "q99")},
            }
            for name, width in widths.items()
        }

    return {"state": of(STATE), "action": of(ACTION)}


def make_hf_home(folder, name="Qwen/Qwen3-VL-8B-Instruct", revision="0123abc"):
    """Write a Hugging Face cache with the backbone's small files."""
    place = folder / "hub" / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(revision)
    snapshot = place / "snapshots" / revision
    snapshot.mkdir(parents=True)
    for file in ("config.json", "preprocessor_config.json", "tokenizer_config.json", "vocab.json"):
        write(snapshot / file, {"file": file})
    (snapshot / "merges.txt").write_text("#version: 0.2\n")
    return folder


def write(path, content):
    path.write_text(json.dumps(content))


def write_weights(path):
    header = json.dumps({"head.bias": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(8))
