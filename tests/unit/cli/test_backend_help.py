# SPDX-License-Identifier: Apache-2.0
from msgspec.structs import replace
from rpent_box_toy.backend import BACKEND

from rpent_box.cli.backend_help import render_backend_options
from rpent_box.worker.backend import BackendSpec


def needs(spec: BackendSpec) -> str:
    lines = render_backend_options(spec).splitlines()
    return next(line for line in lines if line.startswith("needs: "))


def test_what_a_model_needs_is_said_in_words() -> None:
    large = replace(BACKEND, needs_checkpoint=True, needs_gpu=True, memory="8 GB")
    assert needs(large) == "needs: a checkpoint, a GPU, 8 GB"
    assert needs(replace(BACKEND, memory="")) == "needs: nothing more"


def test_ways_around_a_need_are_named() -> None:
    portable = replace(BACKEND, needs_gpu=True, variants=("cpu",), memory="")
    assert needs(portable) == "needs: a GPU, or --device cpu"
    thin = replace(portable, variants=(), needs_checkpoint=True, borrows="some_service")
    assert needs(thin) == "needs: a checkpoint, a GPU, or a running service: --some-service"
    naming = replace(BACKEND, needs_checkpoint=True, checkpoint_is="name", memory="")
    assert needs(naming) == "needs: the name of a checkpoint"
