# SPDX-License-Identifier: Apache-2.0
"""What a prediction of mini-wam costs: `python benchmarks/prediction/run.py [--checkpoint DIR]`.

One observation alone, and batches of 2 to 16, by turns in one run, on one thread: frames of 256
pixels reduced, the network, the actions decoded. Times are the thread's own processor time, so that
others on the machine disturb less; what they do to the caches shows all the same, so leave it idle.

A size of which a bit comes out other than alone is inferred one by one, so what the model answers
never tells. The table therefore says of each size how it is inferred, and how far what the network
computes at once is from what it computes alone, before anything is decoded.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np

from rpent_box.backends.mini_wam.adapter.encode import PROPRIO_SCHEMA
from rpent_box.backends.mini_wam.model import MiniWam, load
from rpent_box.backends.mini_wam.options import MiniWamOptions
from rpent_box.contracts.observation import Observation
from rpent_box.worker.backend import LoadContext, PredictionInput

BATCHES = (1, 2, 4, 8, 16)
IMAGE_SIZE = 256
WARM_UP = 20


def main(words: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", metavar="DIR", help="default: the built-in weights")
    parser.add_argument("--predict-future", action="store_true", help="the frame to come too")
    parser.add_argument("--rounds", type=int, default=200, metavar="N")
    asked = parser.parse_args(words)
    context = LoadContext(
        platform="libero", checkpoint=asked.checkpoint, threads=1, say=lambda phase: None
    )
    model = load(MiniWamOptions(predict_future=asked.predict_future), context)
    observations = _observations(max(BATCHES))
    apart = {size: _apart(model, observations[:size]) for size in BATCHES}
    spent = _measure(model, observations, asked.rounds)
    alone = float(np.median(spent[1]))
    print("batch  ms per observation: p50   p99   single / batch  inferred    largest difference")
    for size, seconds in spent.items():
        p50, p99 = np.percentile(np.array(seconds) / size * 1000, [50, 99])
        how = "at once" if model.infers_at_once[size] else "one by one"
        far = ", ".join(f"{name} {value:.1e}" for name, value in apart[size].items())
        print(f"{size:5d}  {p50:23.2f} {p99:5.2f}   {alone * 1000 / p50:14.2f}  {how:10}  {far}")
    return 0


def _observations(count: int) -> list[PredictionInput]:
    """Return inputs of LIBERO's own sizes; what they show does not matter to the cost."""
    rng = np.random.default_rng(0)
    shape = (IMAGE_SIZE, IMAGE_SIZE, 3)
    made = []
    for number in range(count):
        observation = Observation(
            images={
                role: rng.integers(0, 256, shape, dtype=np.uint8) for role in ("primary", "wrist")
            },
            proprio={
                name: rng.normal(size=length).astype(np.float32)
                for name, length in PROPRIO_SCHEMA.items()
            },
            instruction="pick up the black bowl on the stove and place it on the plate",
        )
        made.append(PredictionInput(observation=observation, session=str(number)))
    return made


def _apart(model: MiniWam, observations: list[PredictionInput]) -> dict[str, float]:
    """Return how far each output of the network for a batch is from those one by one."""
    together, _ = model.compute(observations)
    alone = [model.compute([one])[0] for one in observations]
    return {
        name: max(float(np.abs(values[row] - one[name][0]).max()) for row, one in enumerate(alone))
        for name, values in together.items()
    }


def _measure(
    model: MiniWam, observations: list[PredictionInput], rounds: int
) -> dict[int, list[float]]:
    """Return the seconds of each round, by size of batch; the sizes take turns."""
    spent: dict[int, list[float]] = {size: [] for size in BATCHES}
    for number in range(WARM_UP + rounds):
        for size, seconds in spent.items():
            asked = observations[:size]
            took = _seconds(lambda asked=asked: model.predict_batch(asked))  # type: ignore[misc]
            if number >= WARM_UP:
                seconds.append(took)
    return spent


def _seconds(work: Callable[[], object]) -> float:
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


if __name__ == "__main__":
    raise SystemExit(main())
