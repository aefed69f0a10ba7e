# SPDX-License-Identifier: Apache-2.0
"""Whether a worker can serve what a loaded model says about itself: asked once, at the start.

Whether it fits a platform is another question, which the platform asks (`contracts.fit`).
"""

from __future__ import annotations

import math

from rpent_box.contracts.meta import ModelMeta
from rpent_box.errors import WorkerFailed
from rpent_box.worker.backend import BackendSpec


def require_sound_meta(meta: ModelMeta, spec: BackendSpec) -> None:
    """Raise `WorkerFailed` when `meta` contradicts itself or `spec`."""
    faults = [*_identity_faults(meta, spec), *_number_faults(meta)]
    if faults:
        raise WorkerFailed(
            f"{spec.name} declares itself wrongly: {'; '.join(faults)}",
            hint="This is a fault of the backend, not of the checkpoint: see its `meta`.",
        )


def _identity_faults(meta: ModelMeta, spec: BackendSpec) -> list[str]:
    faults = []
    if meta.backend != spec.name:
        faults.append(f"its meta is called {meta.backend}")
    if meta.kind != spec.kind:
        faults.append(f"its meta is a {meta.kind}, its specification a {spec.kind}")
    return faults


def _number_faults(meta: ModelMeta) -> list[str]:
    faults = []
    if meta.max_batch < 1:
        faults.append(f"max_batch is {meta.max_batch}")
    if not meta.camera_roles:
        faults.append("it looks through no camera")
    if any(length < 1 for length in meta.proprio_schema.values()):
        faults.append(f"a proprio has no length: {meta.proprio_schema}")
    timeout_s = meta.prediction_timeout_s
    if timeout_s is not None and not (math.isfinite(timeout_s) and timeout_s > 0):
        faults.append(f"prediction_timeout_s is {timeout_s}")
    return faults
