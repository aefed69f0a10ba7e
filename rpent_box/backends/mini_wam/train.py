# SPDX-License-Identifier: Apache-2.0
"""Train the network: `python -m rpent_box.backends.mini_wam.train --data DIR… --out DIR`.

A fixed number of steps, each a pure function of the seed, its number and the state before it: what
rows it takes, how they are varied. So a stopped run that goes on from its checkpoint ends where an
unbroken one ends.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import math
import pickle
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from msgspec import Struct

from rpent_box.backends.mini_wam.dataset import HELD_OUT_BY, Dataset, Source, read_dataset
from rpent_box.backends.mini_wam.deploy import rounded
from rpent_box.backends.mini_wam.losses import losses
from rpent_box.backends.mini_wam.manifest import Statistics
from rpent_box.backends.mini_wam.network import MiniWamNetwork
from rpent_box.backends.mini_wam.rows import Rows
from rpent_box.backends.mini_wam.validate import validate
from rpent_box.errors import BadOption, OutputError, RpentBoxError
from rpent_box.sim.results import remove_partials, write_atomically

CHECKPOINT_FILE = "checkpoint.pt"
NETWORK_FILE = "network.pt"
RECORD_FILE = "training.json"
LOG_FILE = "training.jsonl"
SHOWN_DIGITS = 16
NOT_THERE = "not there"
UNREADABLE = (OSError, EOFError, RuntimeError, ValueError, TypeError, pickle.UnpicklingError)
"""What PyTorch raises for files that are cut, or not its own."""


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
    held_out_by: str = ""
    """The rule by which episodes are held out. Empty: an earlier one, which had no name."""

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
        self._data = [[source.folder, source.sha256] for source in dataset.sources]
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
        """Do one step; return its losses. Raises `RpentBoxError` where they are not finite."""
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
        if not all(map(math.isfinite, result.parts.values())):
            raise RpentBoxError(
                f"the losses of step {self.step} are not finite: {result.parts}",
                hint="What was saved before is in order. Train with another --seed, elsewhere.",
            )
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
        except UNREADABLE as error:
            raise BadOption(f"cannot begin with {weights}: {error}") from error
        self.average = {name: value.clone() for name, value in state.items()}

    def save(self, path: Path) -> None:
        """Write a checkpoint whole or not at all. Raises `OutputError`."""
        state = {
            "recipe": msgspec.to_builtins(self.recipe),
            "data": self._data,
            "step": self.step,
            "network": self.network.state_dict(),
            "average": self.average,
            "optimizer": self.optimizer.state_dict(),
        }
        _save(state, path)

    def restore(self, path: Path) -> None:
        """Go on from a checkpoint of the same recipe and data. Raises `BadOption`."""
        hint = "Choose another --out, or remove that file."
        try:
            state = torch.load(path, weights_only=True)
            found = [
                *_other_options(state["recipe"], msgspec.to_builtins(self.recipe)),
                *_other_data(state["data"], self._data),
            ]
            if found:
                lines = "\n".join(f"  {one}" for one in found)
                raise BadOption(f"{path} was begun with other options or data:\n{lines}", hint=hint)
            self.step = int(state["step"])
            self.network.load_state_dict(state["network"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.average = state["average"]
        except KeyError as error:
            raise BadOption(f"{path} is of another version: no {error}", hint=hint) from error
        except UNREADABLE as error:
            raise BadOption(f"cannot go on from {path}: {error}", hint=hint) from error

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
    """Train to the end, going on from `out`'s checkpoint when there is one.

    Raises `BadOption`, also for fewer rows than a batch takes, and `OutputError`.
    """
    if (taught := int((~dataset.held_out).sum())) < recipe.batch:
        raise BadOption(
            f"{taught} of {len(dataset)} rows teach, but each step takes {recipe.batch} of them",
            hint="Give more demonstrations: --data, or take fewer rows: --batch.",
        )
    remove_partials(out)
    training = Training(recipe, dataset)
    checkpoint = out / CHECKPOINT_FILE
    if checkpoint.exists():
        training.restore(checkpoint)
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
            training.save(checkpoint)
    network = training.averaged()
    judged = validate(network, training.rows)
    if not judged:
        sys.stderr.write("No episode of these is held out: what is learnt is not judged.\n")
    log.write(event="validation", step=training.step, **judged)
    _save(training.average, out / NETWORK_FILE)
    record = _record(recipe, dataset, judged)
    write_atomically(out / RECORD_FILE, msgspec.json.format(msgspec.json.encode(record)))
    return record


def _save(state: dict[str, Any], path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomically(path, buffer.getvalue())


def _other_options(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each option that is not what it was: `batch: 64 → 32`."""
    for name in dict.fromkeys([*before, *now]):
        old, new = before.get(name, NOT_THERE), now.get(name, NOT_THERE)
        if old != new:
            yield f"{name}: {old} → {new}"


def _other_data(before: list[list[str]], now: list[list[str]]) -> Iterator[str]:
    """Yield a line for each folder with other content: `data 2: round-1 (…) → not there`.

    What a folder is called does not matter.
    """
    for place, (old, new) in enumerate(zip_longest(before, now), 1):
        if old is None or new is None or old[1] != new[1]:
            shown = [one and f"{one[0]} ({one[1][:SHOWN_DIGITS]}…)" for one in (old, new)]
            yield f"data {place}: {shown[0] or NOT_THERE} → {shown[1] or NOT_THERE}"


def require_same_held_out(record: Path) -> None:
    """Raise `BadOption` unless the training of `record` held out what this one would.

    Else it may have learnt from the episodes that would judge it here.
    """
    try:
        by = msgspec.json.decode(record.read_bytes(), type=TrainingRecord).recipe.held_out_by
    except (OSError, msgspec.DecodeError) as error:
        raise BadOption(f"cannot tell what {record.parent} has held out: {error}") from error
    if by != HELD_OUT_BY:
        raise BadOption(
            f"{record.parent} held out episodes by another rule ({by or 'one without a name'}; "
            f"now: {HELD_OUT_BY}), and so has learnt from some that would judge it here",
            hint="Train that one anew, or begin without --init.",
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
            held_out_by=HELD_OUT_BY,
        )
        out.mkdir(parents=True, exist_ok=True)
        cache.mkdir(parents=True, exist_ok=True)
        if begin_with is not None:
            require_same_held_out(begin_with.with_name(RECORD_FILE))
        dataset = read_dataset([Path(folder) for folder in options.data], cache)
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


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _seed(text: str) -> int:
    if not 0 <= (number := int(text)) < 1 << 64:
        raise argparse.ArgumentTypeError(f"{text} is no seed: wanted 0 to {(1 << 64) - 1}")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="train", description=__doc__)
    add = parser.add_argument
    add("--data", nargs="+", required=True, help="folders of demonstrations")
    add("--cache", metavar="DIR", help="folder for decoded frames (default: that of --out)")
    add("--init", metavar="DIR", help="another training's --out: begin with its weights")
    add("--out", required=True, help="folder for the checkpoint, the log and the network")
    add("--steps", type=_positive, default=Recipe().steps)
    add("--batch", type=_positive, default=Recipe().batch)
    add("--seed", type=_seed, default=Recipe().seed)
    add(
        "--threads", type=_positive, default=2, help="CPU threads; results repeat for equal numbers"
    )
    add("--save-every", type=_positive, default=250, metavar="STEPS")
    add("--log-every", type=_positive, default=50, metavar="STEPS")
    add("--blind", action="store_true", help="control: train on grey frames")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
