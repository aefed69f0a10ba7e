# SPDX-License-Identifier: Apache-2.0
"""The set-up of a run or an evaluation, flat and in the same words for both: dotted path → value.

Facts are of three kinds. `decides`: with another value, results are another thing. `may`: can
change the last bits of an action, and so, in a long episode, its end. `how`: how it was played.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.evaluate.scale.manifest import EvalManifest
from rpent_box.sim.manifest import HostFacts, RunManifest
from rpent_box.sim.secrets import hide_secrets

Kind: TypeAlias = Literal["decides", "may", "how"]
KINDS: tuple[Kind, ...] = ("decides", "may", "how")

KIND_IN_WORDS: Mapping[Kind, str] = {
    "decides": "decides results",
    "may": "may change last bits",
    "how": "how it was played",
}

NOT_DECIDING: Mapping[str, Kind] = {
    # How many observations a model takes at once, and how long one waits for it.
    "worker.meta.max_batch": "may",
    "worker.meta.prediction_timeout_s": "how",
}
"""Facts of the programs that leave what is computed as it is."""

OF_A_MACHINE = frozenset({"rpent_box", "git_revision", "cpu", "gpus"})
"""What a machine may round otherwise with; where programs are processes, their code is its own."""


class Setup(Struct, frozen=True, kw_only=True):
    """Dotted path → value, by kind; in an order that is the same for every run."""

    deciding: dict[str, str]
    may: dict[str, str]
    how: dict[str, str]

    def of(self, kind: Kind) -> dict[str, str]:
        return {"decides": self.deciding, "may": self.may, "how": self.how}[kind]


class Difference(Struct, frozen=True, kw_only=True):
    """A fact that two set-ups do not share."""

    path: str
    kind: Kind
    a: str | None
    """None: not said."""
    b: str | None


def setup_of(manifest: RunManifest | EvalManifest) -> Setup:
    """Return everything that a manifest says, but for what was played and what came of it."""
    facts: dict[Kind, dict[str, str]] = {kind: {} for kind in KINDS}
    for path, kind, value in _facts(manifest):
        # Files of before secrets were hidden are handed on too.
        for name, text in _flat(path, hide_secrets(msgspec.to_builtins(value, str_keys=True))):
            facts[_kind_of(name, kind)][name] = text
    return Setup(deciding=facts["decides"], may=facts["may"], how=facts["how"])


def differences(a: Setup, b: Setup) -> list[Difference]:
    """Return the facts that differ: those that decide results first, in the set-up's order."""
    found = []
    for kind in KINDS:
        ours, theirs = a.of(kind), b.of(kind)
        for path in dict.fromkeys([*ours, *theirs]):
            if ours.get(path) != theirs.get(path):
                found.append(Difference(path=path, kind=kind, a=ours.get(path), b=theirs.get(path)))
    return found


def _kind_of(path: str, kind: Kind) -> Kind:
    return NOT_DECIDING.get(path, kind)


def _facts(manifest: RunManifest | EvalManifest) -> Iterator[tuple[str, Kind, object]]:
    """Yield (path, kind, value); a value may be a structure."""
    plan = manifest.plan
    yield "platform", "decides", plan.platform
    yield "platform_arguments", "decides", plan.platform_arguments
    yield "backend", "decides", plan.backend
    yield "backend_arguments", "decides", plan.backend_arguments
    yield "device", "decides", plan.device
    yield "threads", "decides", plan.threads
    yield "execute_steps", "decides", plan.execute_steps
    yield "seed_rule", "decides", manifest.seed_rule
    if manifest.worker is not None:
        yield "worker.rpent_box", "decides", manifest.worker.rpent_box
        yield "worker.meta", "decides", _plain(manifest.worker.meta) | {"checkpoint_files": None}
    checkpoint = _checkpoint(manifest)
    if checkpoint is not None:
        yield "checkpoint", "decides", _checkpoint_facts(checkpoint)
    if manifest.simulator is not None:
        yield "simulator.renderer", "decides", manifest.simulator.renderer
        yield "simulator.versions", "decides", manifest.simulator.versions
        yield "simulator.meta", "decides", manifest.simulator.meta
    yield "images", "decides", manifest.images
    yield from _how(manifest)


def _checkpoint(manifest: RunManifest | EvalManifest) -> CheckpointManifest | None:
    if manifest.checkpoint is not None or manifest.worker is None:
        return manifest.checkpoint
    return manifest.worker.meta.checkpoint_files


def _checkpoint_facts(checkpoint: CheckpointManifest) -> dict[str, object]:
    """Return what decides: bytes and facts, not where the files lay on one machine."""
    roles: dict[str, list[str]] = {}
    for file in checkpoint.files:
        roles.setdefault(file.role, []).append(file.sha256)
    return {
        "name": checkpoint.checkpoint,
        "suites": ", ".join(checkpoint.suites),
        "facts": checkpoint.facts,
        "sha256": {role: ", ".join(hashes) for role, hashes in roles.items()},
    }


def _how(manifest: RunManifest | EvalManifest) -> Iterator[tuple[str, Kind, object]]:
    plan = manifest.plan
    yield "checkpoint_path", "how", plan.checkpoint
    yield "endpoint", "how", plan.endpoint
    yield "prediction_timeout_s", "how", plan.prediction_timeout_s
    yield "video", "how", plan.video
    yield "show_predictions", "how", plan.show_predictions
    if isinstance(manifest, RunManifest):
        yield from _machine("host", manifest.host)
        yield "launcher", "how", manifest.launcher
        return
    yield "max_batch", "may", manifest.config.max_batch
    yield "max_wait_ms", "may", manifest.config.max_wait_ms
    yield "launcher", "how", ", ".join(_each_once(one.launcher for one in manifest.sessions))
    yield "executor", "how", ", ".join(_each_once(one.executor for one in manifest.sessions))
    places = [place for session in manifest.sessions for place in session.places]
    yield "simulators", "how", ", ".join(_each_once(str(place.envs) for place in places))
    hosts = {msgspec.json.encode(place.host): place.host for place in places}
    for number, host in enumerate(hosts.values()):
        yield from _machine("host" if number == 0 else f"host_{number + 1}", host)


def _machine(name: str, host: HostFacts) -> Iterator[tuple[str, Kind, object]]:
    for field in HostFacts.__struct_fields__:
        kind: Kind = "may" if field in OF_A_MACHINE else "how"
        yield f"{name}.{field}", kind, getattr(host, field)


def _each_once(values: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


def _plain(value: object) -> dict[str, object]:
    plain = msgspec.to_builtins(value)
    return plain if isinstance(plain, dict) else {}


def _flat(path: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the leaves of what JSON could hold; what says nothing is left out."""
    if isinstance(value, dict):
        for name in value:
            yield from _flat(f"{path}.{name}", value[name])
    elif isinstance(value, list):
        if any(isinstance(one, (dict, list)) for one in value):
            for number, one in enumerate(value):
                yield from _flat(f"{path}[{number}]", one)
        elif value:
            yield path, ", ".join(map(_text, value))
    elif value is not None and value != "":
        yield path, _text(value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
