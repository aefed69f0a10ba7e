# SPDX-License-Identifier: Apache-2.0
"""Make tiny weights, or predict with them, in Cosmos Policy's own environment. Prints JSON.

python cosmos_policy_tiny_run.py make FOLDER SCRATCH
python cosmos_policy_tiny_run.py embed FOLDER
python cosmos_policy_tiny_run.py spoil FOLDER
python cosmos_policy_tiny_run.py look FOLDER
python cosmos_policy_tiny_run.py predict FOLDER
"""

from __future__ import annotations

import io
import json
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import cosmos_policy_tiny as tiny
import numpy as np
import torch
from cosmos_policy_files import INSTRUCTIONS

from rpent_box.backends.cosmos_policy import upstream
from rpent_box.backends.cosmos_policy.adapter.encode import encode_libero
from rpent_box.backends.cosmos_policy.checkpoint import PICKLED_EMBEDDINGS, WEIGHTS
from rpent_box.backends.cosmos_policy.embeddings import SHAPE
from rpent_box.backends.cosmos_policy.model import load
from rpent_box.backends.cosmos_policy.options import CosmosPolicyOptions
from rpent_box.backends.cosmos_policy.weights import read_shapes
from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.observation import ActionChunk, Observation
from rpent_box.errors import BadCheckpoint
from rpent_box.worker.backend import LoadContext, PredictionInput

OPTIONS = CosmosPolicyOptions(predict_future=True, cached_instructions_only=True)


def embed(folder: Path) -> dict[str, Any]:
    """Write embeddings as Cosmos Policy's own script does, one of them on the CPU in float32."""
    torch.manual_seed(1)
    embeddings = {name: torch.randn(SHAPE).bfloat16() for name in INSTRUCTIONS}
    embeddings["a new instruction"] = torch.randn(SHAPE)
    with (folder / PICKLED_EMBEDDINGS).open("wb") as file:
        pickle.dump(embeddings, file)
    bits = {name: value.bfloat16().view(torch.int16).numpy() for name, value in embeddings.items()}
    np.savez(folder / "bits.npz", **bits)
    return {"bytes": (folder / PICKLED_EMBEDDINGS).stat().st_size}


def spoil(folder: Path) -> dict[str, Any]:
    """Take a tensor, a counter and a table of the weights away; give a tensor another shape."""
    stored = torch.load(folder / WEIGHTS, weights_only=True)
    for name in ("x_embedder.proj.1.weight", "accum_iteration", "pos_embedder.seq"):
        del stored[f"net.{name}"]
    stored["net.final_layer.linear.weight"] = torch.zeros(3, 5)
    torch.save(stored, folder / WEIGHTS)
    return {}


def look(folder: Path) -> dict[str, Any]:
    """Read the shapes of three kinds of weights: a state dictionary, an old file, a harmful one."""
    scale = torch.nn.Linear(3, 2).state_dict()
    scale["norm._extra_state"] = io.BytesIO(b"state")
    torch.save(scale, folder / "new.pt")
    torch.save(scale, folder / "old.pt", _use_new_zipfile_serialization=False)
    torch.save({"weight": Touches(folder / "ran")}, folder / "bad.pt")
    try:
        bad = str(read_shapes(folder / "bad.pt"))
    except BadCheckpoint as error:
        bad = error.detail
    return {
        "new": read_shapes(folder / "new.pt"),
        "old": read_shapes(folder / "old.pt"),
        "bad": bad,
        "ran": (folder / "ran").exists(),
    }


class Touches:
    """Writes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def __reduce__(self) -> Any:
        return (Path.touch, (self._target,))


def predict(folder: Path) -> dict[str, Any]:
    """Load through the backend and predict; then ask Cosmos Policy without it."""
    # Between what `load` puts into the environment and what it imports then.
    load_policy = upstream._load_policy
    upstream._load_policy = lambda *given: (tiny.shrink(), load_policy(*given))[1]
    before = listed(folder)
    began = time.monotonic()
    context = LoadContext(
        platform="libero", checkpoint=str(folder), threads=1, device="cuda", say=lambda _: None
    )
    backend = load(OPTIONS, context)
    loaded = time.monotonic()
    chunks = [backend.predict(request(chunk)) for chunk in (0, 1, 0)]
    ended = time.monotonic()
    for chunk in chunks:
        check_actions(chunk, backend.meta)
    written = sorted(set(listed(folder)) ^ set(before))
    directly = ask_directly(backend, folder, request(0), int(chunks[0].metadata["noise_seed"]))
    backend.close()
    return {
        "load_s": round(loaded - began, 2),
        "predict_s": round((ended - loaded) / len(chunks), 2),
        "actions": chunks[0].actions.tolist(),
        "again": chunks[2].actions.tolist(),
        "another_chunk": chunks[1].actions.tolist(),
        "directly": directly["actions"],
        "value": chunks[0].value,
        "directly_value": directly["value"],
        "future_equal": frames_equal(chunks[0], directly),
        "future_shape": list((chunks[0].future_observation or {})["primary"].shape),
        "written": written,
        "simulators": sorted({"libero", "robosuite", "mujoco", "draccus"} & set(sys.modules)),
    }


def ask_directly(backend: Any, folder: Path, asked: PredictionInput, seed: int) -> dict[str, Any]:
    """Ask as Cosmos Policy's own scripts do: its own caches, from its own pickle, by words."""
    from cosmos_policy.experiments.robot import cosmos_utils

    cosmos_utils.init_t5_text_embeddings_cache(str(folder / PICKLED_EMBEDDINGS))
    policy = backend._policy
    statistics = cosmos_utils.load_dataset_stats(str(folder / "libero_dataset_statistics.json"))
    answer = cosmos_utils.get_action(
        policy.recipe,
        policy.network,
        statistics,
        encode_libero(asked.observation, OPTIONS),
        asked.observation.instruction,
        seed=seed,
        num_denoising_steps_action=5,
        generate_future_state_and_value_in_parallel=True,
    )
    return {
        "actions": np.stack(answer["actions"]).astype(np.float32).tolist(),
        "value": answer["value_prediction"],
        "frames": answer["future_image_predictions"],
    }


def listed(folder: Path) -> list[str]:
    """Every file below `folder`, with its size and time."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files]


def frames_equal(chunk: ActionChunk, directly: dict[str, Any]) -> bool:
    frames = chunk.future_observation or {}
    names = {"primary": "future_image", "wrist": "future_wrist_image"}
    return all(
        np.array_equal(frames[role], directly["frames"][name]) for role, name in names.items()
    )


def request(chunk: int) -> PredictionInput:
    rng = np.random.default_rng(5)
    return PredictionInput(
        observation=Observation(
            images={
                role: rng.integers(0, 256, (256, 256, 3), np.uint8) for role in ("primary", "wrist")
            },
            proprio={
                "eef_position": np.array([0.1, -0.2, 0.3], np.float32),
                "eef_quaternion_xyzw": np.array([0.9, 0.1, 0.2, 0.3], np.float32),
                "gripper_qpos": np.array([0.04, -0.04], np.float32),
            },
            instruction=INSTRUCTIONS[0],
        ),
        session="tiny",
        episode=EpisodeKey(seed=1, suite="libero_goal", task=0, episode=0, chunk=chunk),
    )


def main() -> None:
    what, folder, *scratch = sys.argv[1:]
    if what == "make":
        tiny.write_weights(Path(folder), Path(scratch[0]))
        result: dict[str, Any] = {}
    else:
        steps = {"embed": embed, "spoil": spoil, "look": look, "predict": predict}
        result = steps[what](Path(folder))
    Path(folder, f"{what}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
