# SPDX-License-Identifier: Apache-2.0
"""Ask openpi itself: `python pi05_upstream.py CASES.npz OUT`, in pi05's own Python.

CASES holds recorded inputs (`cNN/field`, and `prompts`, a JSON text). OUT becomes a folder with
`answers.npz` and `answers.json`; the tests compare. Networks are tiny, everything else is openpi's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pi05_tiny
from numpy.typing import NDArray

from rpent_box.backends.pi05.adapter import LiberoInput
from rpent_box.backends.pi05.adapter.encode import encode_libero
from rpent_box.backends.pi05.adapter.images import SIZE
from rpent_box.backends.pi05.checkpoint import find_files
from rpent_box.backends.pi05.configs import KNOWN_CONFIGS
from rpent_box.backends.pi05.model import Pi05, draw_noise, load
from rpent_box.backends.pi05.openpi_policy import OpenpiPolicy, open_policy
from rpent_box.backends.pi05.options import Pi05Options
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.observation import Observation
from rpent_box.worker.backend import LoadContext, PredictionInput

CONFIG_FILE = str(Path(__file__).with_name("pi05_tiny_config.py"))
SIZES = ((256, 256), (128, 160), (300, 200), (37, 91), (5, 1), (224, 224), (225, 223))


def main(cases: Path, out: Path) -> None:
    """Write the answers to everything below."""
    tiny = out / "tiny"
    pi05_tiny.make(tiny)
    arrays: dict[str, NDArray[Any]] = {}
    facts: dict[str, Any] = {"cases": {}}
    with np.load(cases, allow_pickle=False) as stored:
        recorded = {name: stored[name] for name in stored.files}
    for name in sorted({key.split("/")[0] for key in recorded if "/" in key}):
        case = _under(recorded, f"{name}/")
        answers, facts["cases"][name] = _ask_case(case, tiny, out / name)
        arrays |= {f"{name}/{key}": value for key, value in answers.items()}
    facts["prompts"] = list(_prompts(json.loads(str(recorded["prompts"])), tiny))
    facts["passed"] = list(_passed_prompts(json.loads(str(recorded["prompts"])), tiny))
    arrays |= _predictions(tiny)
    arrays |= _resized()
    arrays |= _round_trip()
    facts["shapes"] = _full_size_shapes()
    facts["missing"] = _missing_config(tiny)
    np.savez(out / "answers.npz", **arrays)
    (out / "answers.json").write_text(json.dumps(facts))


def _under(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _context(tiny: Path) -> LoadContext:
    return LoadContext(
        platform="libero", checkpoint=str(tiny), threads=1, device="cpu", say=lambda _: None
    )


def _open(tiny: Path, **options: Any) -> OpenpiPolicy:
    chosen = Pi05Options(**({"config_name": "tiny_libero", "config_file": CONFIG_FILE} | options))
    return open_policy(chosen, find_files(chosen, tiny), _context(tiny))[0]


def _ask_case(
    case: dict[str, NDArray[Any]], tiny: Path, folder: Path
) -> tuple[dict[str, NDArray[Any]], dict[str, bool]]:
    """Send one observation through ours and openpi's code, with the model's answer recorded."""
    statistics = folder / "norm_stats.json"
    folder.mkdir()
    groups = {
        group: {
            name: case[f"stats_{group}_{name}"].tolist() for name in ("mean", "std", "q01", "q99")
        }
        for group in ("state", "actions")
    }
    statistics.write_text(json.dumps({"norm_stats": groups}))
    policy = _open(tiny, norm_stats=str(statistics))
    seen: dict[str, Any] = {}
    shown = encode_libero(_observation(case), None)
    shown = _as_recorded(shown, case)
    _record(policy, case["model_actions"], seen)
    noise = draw_noise(0, policy.noise_shape)
    actions = policy.infer(shown, noise=noise, num_steps=7)
    observation = seen["observation"]
    # openpi's own copies of the frames, back in bytes.
    images = {
        key: np.rint((image[0].permute(1, 2, 0).numpy() + 1) * 127.5).astype(np.uint8)
        for key, image in observation.images.items()
    }
    answers = {
        "actions": actions,
        "model_state": observation.state[0].numpy(),
        "image": images["base_0_rgb"],
        "wrist_image": images["left_wrist_0_rgb"],
        "third_image": images["right_wrist_0_rgb"],
        "noise": seen["kwargs"]["noise"][0].numpy(),
    }
    masks = {key: bool(mask[0]) for key, mask in observation.image_masks.items()}
    return answers, {**masks, "num_steps_7": seen["kwargs"]["num_steps"] == 7}


def _as_recorded(shown: LiberoInput, case: dict[str, NDArray[Any]]) -> LiberoInput:
    """The state in the precision that the case was recorded with."""
    return LiberoInput(
        image=shown.image,
        wrist_image=shown.wrist_image,
        state=shown.state.astype(case["state_in"].dtype),
        prompt=shown.prompt,
    )


def _record(policy: OpenpiPolicy, model_actions: NDArray[Any], seen: dict[str, Any]) -> None:
    import torch

    def sample(device: str, observation: Any, **kwargs: Any) -> Any:
        seen.update(observation=observation, kwargs=kwargs)
        return torch.from_numpy(model_actions)[None]

    policy._policy._sample_actions = sample


def _observation(case: dict[str, NDArray[Any]]) -> Observation:
    return Observation(
        images={
            "primary": np.ascontiguousarray(case["raw_agentview_image"][::-1]),
            "wrist": np.ascontiguousarray(case["raw_robot0_eye_in_hand_image"][::-1]),
        },
        proprio={
            "eef_position": case["raw_robot0_eef_pos"],
            "eef_quaternion_xyzw": case["raw_robot0_eef_quat"],
            "gripper_qpos": case["raw_robot0_gripper_qpos"],
        },
        instruction="open the drawer",
    )


class _Listener:
    """Stands in for the vocabulary and writes down what it is asked."""

    def __init__(self) -> None:
        self.encoded: list[list[Any]] = []

    def encode(self, text: str, add_bos: bool = False) -> list[int]:
        self.encoded.append([text, add_bos])
        return [1]


def _prompts(cases: list[dict[str, Any]], tiny: Path) -> Iterator[list[list[Any]]]:
    """What openpi's tokenizer makes of a prompt and a state."""
    policy = _open(tiny)
    for case in cases:
        tokenizer, listener = _tokenizer_of(policy), _Listener()
        tokenizer._tokenizer = listener
        state = None if case["state"] is None else np.array(case["state"])
        tokenizer.tokenize(case["prompt"], state)
        yield listener.encoded


def _passed_prompts(cases: list[dict[str, Any]], tiny: Path) -> Iterator[list[list[Any]]]:
    """What its vocabulary is asked when an instruction goes the whole way through our adapter."""
    policy = _open(tiny)
    _record(policy, np.zeros((10, 32), np.float32), {})
    for case in cases:
        listener = _Listener()
        _tokenizer_of(policy)._tokenizer = listener
        shown = encode_libero(_blank(case["prompt"]), None)
        policy.infer(shown, noise=draw_noise(0, policy.noise_shape), num_steps=1)
        yield listener.encoded


def _tokenizer_of(policy: OpenpiPolicy) -> Any:
    transforms = policy._policy._input_transform.transforms
    return next(one.tokenizer for one in transforms if hasattr(one, "tokenizer"))


def _blank(instruction: str, level: int = 0) -> Observation:
    frame = np.full((64, 64, 3), level, np.uint8)
    return Observation(
        images={"primary": frame, "wrist": frame},
        proprio={
            "eef_position": np.array([0.0, 0.1, 1.0 + level / 255], np.float32),
            "eef_quaternion_xyzw": np.array([1.0, 0.0, 0.0, 0.0], np.float32),
            "gripper_qpos": np.array([0.04, -0.04], np.float32),
        },
        instruction=instruction,
    )


def _predictions(tiny: Path) -> dict[str, NDArray[Any]]:
    """Chunks of the real, tiny network, each with one thing changed."""
    first, second = _load(tiny), _load(tiny)
    state = _load(tiny, config_name="tiny_state")
    bowl = "pick up the bowl"

    def ask(
        backend: Pi05, shown: Observation, *, chunk: int = 0, **options: Any
    ) -> NDArray[np.float32]:
        episode = EpisodeKey(seed=7, suite="libero_goal", task=3, episode=2, chunk=chunk)
        request = PredictionInput(
            observation=shown, session="one", episode=episode, options=options
        )
        return backend.predict(request).actions

    moved = _blank(bowl)
    moved.proprio["eef_position"][0] = 0.2
    return {
        "plain": ask(first, _blank(bowl)),
        "again": ask(first, _blank(bowl)),
        "other_load": ask(second, _blank(bowl)),
        "next_chunk": ask(first, _blank(bowl), chunk=1),
        "other_seed": ask(first, _blank(bowl), seed=5),
        "three_steps": ask(first, _blank(bowl), num_steps=3),
        "after_three_steps": ask(first, _blank(bowl)),
        "other_words": ask(first, _blank("open the drawer")),
        "other_frame": ask(first, _blank(bowl, level=200)),
        "moved": ask(first, moved),
        "state_plain": ask(state, _blank(bowl)),
        "state_moved": ask(state, moved),
    }


def _load(tiny: Path, **options: Any) -> Pi05:
    chosen = Pi05Options(**({"config_name": "tiny_libero", "config_file": CONFIG_FILE} | options))
    return load(chosen, _context(tiny))


def _resized() -> dict[str, NDArray[Any]]:
    """Frames through the image tools of openpi's client."""
    from openpi_client import image_tools

    random = np.random.default_rng(4)
    found = {}
    for height, width in SIZES:
        image = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        found[f"resize_{height}x{width}_in"] = image
        found[f"resize_{height}x{width}_out"] = image_tools.convert_to_uint8(
            image_tools.resize_with_pad(image, SIZE, SIZE)
        )
    return found


def _round_trip() -> dict[str, NDArray[Any]]:
    """Actions through openpi's normaliser and back; two columns have no range."""
    from openpi.shared.normalize import NormStats
    from openpi.transforms import Normalize, Unnormalize

    low, high = np.full(7, -0.5), np.full(7, 0.75)
    low[[2, 6]] = high[[2, 6]] = 0.25
    statistics = {"actions": NormStats(mean=low, std=high, q01=low, q99=high)}
    actions = np.random.default_rng(8).uniform(-3, 3, (10, 7))
    actions[0], actions[1] = low, high
    scaled = Normalize(statistics, use_quantiles=True)({"actions": actions.copy()})
    back = Unnormalize(statistics, use_quantiles=True)({"actions": scaled["actions"].copy()})
    return {
        "trip_actions": actions,
        "trip_scaled": scaled["actions"],
        "trip_back": back["actions"],
    }


def _full_size_shapes() -> dict[str, list[int]]:
    """Shapes in openpi's own network of full size, made without memory."""
    import torch
    from openpi.models_pytorch.pi0_pytorch import PI0Pytorch
    from openpi.training.config import get_config

    shapes: dict[str, list[int]] = {}
    for name in KNOWN_CONFIGS:
        with torch.device("meta"):
            network = PI0Pytorch(get_config(name).model)
        shapes |= {key: list(value.shape) for key, value in network.state_dict().items()}
        shapes[f"{name}.action_horizon"] = [get_config(name).model.action_horizon]
    return shapes


def _missing_config(tiny: Path) -> str:
    from rpent_box.errors import BadOption

    try:
        _open(tiny, config_name="tiny_libra")
    except BadOption as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
