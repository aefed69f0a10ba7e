# SPDX-License-Identifier: Apache-2.0
"""Where a worker computes, and what it may leave out when a service does the work."""

import pytest
from msgspec import Struct
from msgspec.structs import replace
from rpent_box_toy.backend import BACKEND

from rpent_box.errors import BadOption, UsageError
from rpent_box.worker.backend import BackendSpec
from rpent_box.worker.needs import Needs, needs_of


class Options(Struct, frozen=True, kw_only=True):
    model_service: str = ""


SMALL = replace(BACKEND, options=Options, needs_gpu=False, needs_checkpoint=False)
LARGE = replace(SMALL, name="large", needs_gpu=True)
WITH_VARIANT = replace(LARGE, name="portable", variants=("cpu",))
BORROWING = replace(LARGE, name="thin", needs_checkpoint=True, borrows="model_service")
THERE = Options(model_service="tcp://there:1")


def needs(spec: BackendSpec, options: Struct | None = None, **given: str | None) -> Needs:
    words = {"checkpoint": None, "device": None, **given}
    return needs_of(spec, options or Options(), **words)  # type: ignore[arg-type]


def test_a_model_computes_where_it_is_made_for() -> None:
    assert needs(SMALL) == Needs(device="cpu")
    assert needs(LARGE) == Needs(device="cuda")
    assert needs(WITH_VARIANT) == Needs(device="cuda")


def test_only_a_model_with_a_cpu_variant_can_leave_its_gpu() -> None:
    assert needs(WITH_VARIANT, device="cpu") == Needs(device="cpu", cpu_variant=True)
    with pytest.raises(BadOption, match="large has no CPU variant") as caught:
        needs(LARGE, device="cpu")
    assert "--device cuda" in caught.value.hint


def test_a_model_without_use_for_a_gpu_takes_its_only_image_on_the_cpu() -> None:
    assert needs(SMALL, device="cpu") == Needs(device="cpu")
    with pytest.raises(BadOption, match="computes on the CPU only") as caught:
        needs(SMALL, device="cuda")
    assert "--device cpu" in caught.value.hint


def test_the_cpu_and_a_certain_gpu_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="--device cpu and --cuda-device 0 exclude"):
        needs(WITH_VARIANT, device="cpu", cuda_device="0")
    assert needs(LARGE, device="cuda", cuda_device="0").device == "cuda"


def test_a_borrowed_service_brings_weights_and_gpu_and_asks_for_a_network() -> None:
    assert needs(BORROWING, THERE) == Needs(device="cpu", service="tcp://there:1", network=True)
    assert needs(BORROWING, THERE, device="cpu") == needs(BORROWING, THERE)
    both = replace(BORROWING, variants=("cpu",))
    assert not needs(both, THERE).cpu_variant


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"checkpoint": "/weights"}, "--checkpoint"),
        ({"device": "cuda"}, "--device cuda"),
        ({"cuda_device": "0"}, "--cuda-device"),
    ],
)
def test_what_only_an_own_model_has_is_refused_beside_a_borrowed_service(
    given: dict[str, str], named: str
) -> None:
    with pytest.raises(UsageError, match=f"--model-service excludes {named}: .*tcp://there:1"):
        needs(BORROWING, THERE, **given)


def test_a_checkpoint_that_only_names_what_the_service_has_loaded_is_no_contradiction() -> None:
    naming = replace(BORROWING, checkpoint_is="name")
    assert needs(naming, THERE, checkpoint="org/model").service == "tcp://there:1"


def test_without_built_in_weights_a_checkpoint_or_a_service_must_be_given() -> None:
    with pytest.raises(BadOption, match="thin has no built-in weights") as caught:
        needs(BORROWING)
    assert caught.value.hint == (
        "Give them: --checkpoint PATH, or borrow a service: --model-service ADDRESS"
    )
    assert needs(BORROWING, checkpoint="/weights") == Needs(device="cuda")
    naming = replace(SMALL, needs_checkpoint=True, checkpoint_is="name")
    with pytest.raises(BadOption) as caught:
        needs(naming)
    assert caught.value.hint == "Give them: --checkpoint NAME"
    with pytest.raises(BadOption, match="no built-in weights"):
        needs(BORROWING, checkpoint="")


def test_a_declared_network_is_kept() -> None:
    assert needs(replace(SMALL, needs_network=True)).network
