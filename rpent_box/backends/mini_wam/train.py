# SPDX-License-Identifier: Apache-2.0
"""Train the network: `python -m rpent_box.backends.mini_wam.train --data DIR… --out DIR`.

A fixed number of steps, each a pure function of the seed, its number and the state before it: what
rows it takes, how they are varied. So a stopped run that goes on from its checkpoint ends where an
unbroken one ends.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import torch
from msgspec import Struct

from rpent_box.backends.mini_wam.dataset import Dataset, Source, fingerprint, read_dataset
from rpent_box.backends.mini_wam.deploy import rounded
from rpent_box.backends.mini_wam.losses import losses
from rpent_box.backends.mini_wam.manifest import Statistics
from rpent_box.backends.mini_wam.network import MiniWamNetwork
from rpent_box.backends.mini_wam.rows import Rows
from rpent_box.backends.mini_wam.validate import validate
from rpent_box.errors import BadOption, OutputError, RpentBoxError

CHECKPOINT_FILE = "checkpoint.pt"
NETWORK_FILE = "network.pt"
RECORD_FILE = "training.json"
LOG_FILE = "training.jsonl"


class Recipe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about a training run but its data."""

    steps: int = 2000
    batch: int = 64
    seed: int = 0
    learning_rate: float = 1e-3
    weight_decay: float = 1e-3
    warmup_steps: int = 50
    averaging: float = 0.995
    """Of the weights that are exported: an exponential moving average of the trained ones."""
    blind: bool = False
    """Grey frames: a control, not a model."""
    begins_with: str = ""
    """SHA-256 of the network whose weights it begins with; empty for random ones."""

    def rate(self, step: int) -> float:
        """The learning rate: a warm-up, then a cosine down to 2 %."""
        fall = 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return self.learning_rate * min(1.0, (step + 1) / self.warmup_steps) * (0.98 * fall + 0.02)


class TrainingRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the export needs to know."""

    recipe: Recipe
    statistics: Statistics
    instructions: tuple[str, ...]
    student_rows: int
    sources: tuple[Source, ...]
    validation: dict[str, float]


class Training:
    """The state of a run."""

    def __init__(self, recipe: Recipe, dataset: Dataset) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe = recipe
        self.rows = Rows(dataset, blind=recipe.blind)
        self.network = MiniWamNetwork().to(memory_format=torch.channels_last)
        self.average = {name: value.clone() for name, value in self.network.state_dict().items()}
        self.optimizer = torch.optim.AdamW(
            self.network.parameters(),
            recipe.learning_rate,
            weight_decay=recipe.weight_decay,
            fused=True,
        )
        self.step = 0

    def advance(self) -> dict[str, float]:
        """Do one step; return its losses."""
        rng = np.random.default_rng([self.recipe.seed, self.step])
        generator = torch.Generator().manual_seed(int(rng.integers(1 << 31)))
        picked = rng.choice(self.rows.taught, self.recipe.batch, replace=False)
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate(self.step)
        self.network.train()
        batch = self.rows.batch(picked, precision=torch.bfloat16, rng=rng)
        result = losses(self.network, batch, generator)
        self.optimizer.zero_grad()
        result.total.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        self._average()
        return result.parts

    def averaged(self) -> MiniWamNetwork:
        """Return a network with the averaged weights, rounded as an export rounds them."""
        network = MiniWamNetwork()
        network.load_state_dict(self.average)
        return rounded(network)

    def begin_with(self, weights: Path) -> None:
        """Take the weights of another training's network. Raises `BadOption`."""
        try:
            state = torch.load(weights, weights_only=True)
            self.network.load_state_dict(state)
        except (OSError, RuntimeError) as error:
            raise BadOption(f"cannot begin with {weights}: {error}") from error
        self.average = {name: value.clone() for name, value in state.items()}

    def save(self, path: Path, of: str) -> None:
        """Write a checkpoint whole or not at all."""
        part = path.with_suffix(".part")
        state = {
            "fingerprint": of,
            "step": self.step,
            "network": self.network.state_dict(),
            "average": self.average,
            "optimizer": self.optimizer.state_dict(),
        }
        torch.save(state, part)
        part.replace(path)

    def restore(self, path: Path, of: str) -> None:
        """Go on from a checkpoint of the same recipe and data. Raises `BadOption`."""
        state = torch.load(path, weights_only=True)
        if state["fingerprint"] != of:
            raise BadOption(
                f"{path} belongs to another recipe or other data",
                hint="Choose another --out, or remove that file.",
            )
        self.step = int(state["step"])
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.average = state["average"]

    def _average(self) -> None:
        keep = min(self.recipe.averaging, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            pairs = [
                (self.average[name], value) for name, value in self.network.state_dict().items()
            ]
            averages, values = zip(
                *(pair for pair in pairs if pair[0].dtype.is_floating_point), strict=True
            )
            torch._foreach_lerp_(averages, values, 1 - keep)
            for average, value in pairs:
                if not value.dtype.is_floating_point:
                    average.copy_(value)


def train(
    recipe: Recipe,
    dataset: Dataset,
    out: Path,
    *,
    begin_with: Path | None = None,
    save_every: int,
    log_every: int,
) -> TrainingRecord:
    """Train to the end, going on from `out`'s checkpoint when there is one."""
    training = Training(recipe, dataset)
    of = msgspec.json.encode([recipe, fingerprint(dataset)]).decode()
    checkpoint = out / CHECKPOINT_FILE
    if checkpoint.exists():
        training.restore(checkpoint, of)
    elif begin_with is not None:
        training.begin_with(begin_with)
    log = Log(out / LOG_FILE)
    log.write(event="start", step=training.step, steps=recipe.steps, rows=len(dataset))
    sums: dict[str, float] = {}
    begun, first = time.monotonic(), training.step
    while training.step < recipe.steps:
        for name, loss in training.advance().items():
            sums[name] = sums.get(name, 0.0) + loss / log_every
        if training.step % log_every == 0:
            step_s = (time.monotonic() - begun) / (training.step - first)
            log.write(
                event="step",
                step=training.step,
                steps=recipe.steps,
                step_s=step_s,
                **sums,
            )
            sums = {}
        if training.step % save_every == 0:
            training.save(checkpoint, of)
    network = training.averaged()
    judged = validate(network, training.rows)
    log.write(event="validation", step=training.step, **judged)
    torch.save(training.average, out / NETWORK_FILE)
    record = _record(recipe, dataset, judged)
    (out / RECORD_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    return record


def require_same_held_out(record: Path, dataset: Dataset) -> None:
    """Raise `BadOption` where the training of `record` learnt from what `dataset` holds out.

    What is held out is counted from the first folder on, so it stays the same for the folders that
    both trainings begin with, and for no others.
    """
    try:
        before = msgspec.json.decode(record.read_bytes(), type=TrainingRecord).sources
    except (OSError, msgspec.DecodeError) as error:
        raise BadOption(f"cannot tell what {record.parent} has learnt from: {error}") from error
    learnt = [source.sha256 for source in before]
    given = [source.sha256 for source in dataset.sources]
    pairs = list(zip(learnt, given, strict=False))
    alike = next((place for place, (one, other) in enumerate(pairs) if one != other), len(pairs))
    if twice := set(learnt[alike:]) & set(given[alike:]):
        names = ", ".join(one.folder for one in dataset.sources if one.sha256 in twice)
        raise BadOption(
            f"{record.parent} has learnt from episodes of {names} that would be held out here",
            hint=f"Begin --data with {', '.join(one.folder for one in before)}, in this order.",
        )


class Log:
    """JSON lines, to a file and to standard output."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *, event: str, **values: float) -> None:
        rounded = {name: round(value, 5) for name, value in values.items()}
        line = msgspec.json.encode({"event": event, **rounded}).decode() + "\n"
        with self.path.open("a") as file:
            file.write(line)
        sys.stdout.write(line)
        sys.stdout.flush()


def _record(recipe: Recipe, dataset: Dataset, judged: dict[str, float]) -> TrainingRecord:
    return TrainingRecord(
        recipe=recipe,
        statistics=dataset.statistics(),
        instructions=dataset.sentences,
        student_rows=int(dataset.student_acts.sum()),
        sources=dataset.sources,
        validation={name: round(value, 5) for name, value in judged.items()},
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and train."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    out = Path(options.out)
    begin_with = None if options.init is None else Path(options.init) / NETWORK_FILE
    cache = out if options.cache is None else Path(options.cache)
    try:
        recipe = Recipe(
            steps=options.steps,
            batch=options.batch,
            seed=options.seed,
            blind=options.blind,
            begins_with="" if begin_with is None else _sha256(begin_with),
        )
        out.mkdir(parents=True, exist_ok=True)
        cache.mkdir(parents=True, exist_ok=True)
        dataset = read_dataset([Path(folder) for folder in options.data], cache)
        if begin_with is not None:
            require_same_held_out(begin_with.with_name(RECORD_FILE), dataset)
        train(
            recipe,
            dataset,
            out,
            begin_with=begin_with,
            save_every=options.save_every,
            log_every=options.log_every,
        )
    except RpentBoxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"{OutputError(f'cannot write to {out}: {error}')}\n")
        return 1
    return 0


def _sha256(network: Path) -> str:
    try:
        return hashlib.sha256(network.read_bytes()).hexdigest()
    except OSError as error:
        raise BadOption(
            f"cannot begin with {network}: {error.strerror}",
            hint="--init wants the --out of a training that has ended.",
        ) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="train", description=__doc__)
    add = parser.add_argument
    add("--data", nargs="+", required=True, help="folders of demonstrations")
    add("--cache", metavar="DIR", help="folder for decoded frames (default: that of --out)")
    add("--init", metavar="DIR", help="another training's --out: begin with its weights")
    add("--out", required=True, help="folder for the checkpoint, the log and the network")
    add("--steps", type=int, default=Recipe().steps)
    add("--batch", type=int, default=Recipe().batch)
    add("--seed", type=int, default=Recipe().seed)
    add("--threads", type=int, default=2, help="CPU threads; results repeat for equal numbers")
    add("--save-every", type=int, default=250, metavar="STEPS")
    add("--log-every", type=int, default=50, metavar="STEPS")
    add("--blind", action="store_true", help="control: train on grey frames")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
