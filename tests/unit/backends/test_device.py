# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from rpent_box.backends.device import require_device
from rpent_box.errors import BadOption
from rpent_box.worker.backend import Device, LoadContext


def context(device: Device) -> LoadContext:
    return LoadContext(
        platform="libero", checkpoint=None, threads=1, device=device, say=lambda _: None
    )


def test_a_gpu_that_is_asked_for_must_be_seen() -> None:
    require_device(context("cuda"), sees_gpu=True, backend="wander")
    with pytest.raises(BadOption, match="wander shall compute on a GPU") as caught:
        require_device(context("cuda"), sees_gpu=False, backend="wander")
    assert "--device cpu" in caught.value.hint


@pytest.mark.parametrize("sees_gpu", [True, False])
def test_a_cpu_is_always_there(sees_gpu: bool) -> None:
    require_device(context("cpu"), sees_gpu=sees_gpu, backend="wander")
