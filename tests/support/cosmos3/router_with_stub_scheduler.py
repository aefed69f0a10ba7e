# SPDX-License-Identifier: Apache-2.0
"""SGLang's own action endpoint before a scheduler that computes nothing.

    SGLANG_PYTHON router_with_stub_scheduler.py MODEL MAX_BATCH

Runs in an environment with SGLang, on a CPU, and prints its address. Everything from the socket to
the scheduler is SGLang's: reading the request, checking it, the answer's form. What the scheduler
was given is told at `/seen`. The words `fail` and `garbage` in a prompt make it do so.
"""

from __future__ import annotations

import dataclasses
import socket
import sys
from types import SimpleNamespace
from typing import Any

import torch

# PyPI's torchvision is built for CUDA; beside a torch for CPUs its own operators are missing, and
# its import stops at the first that is looked for. None of them is called here.
for _operator in ("nms", "qnms") if torch.version.cuda is None else ():
    torch.library.define(
        f"torchvision::{_operator}",
        "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    )

import uvicorn  # noqa: E402 - after the operators
from fastapi import FastAPI  # noqa: E402
from sglang.multimodal_gen.configs.pipeline_configs.cosmos3 import Cosmos3Config  # noqa: E402
from sglang.multimodal_gen.configs.sample.cosmos3 import Cosmos3SamplingParams  # noqa: E402
from sglang.multimodal_gen.runtime.entrypoints.action import api, protocol  # noqa: E402
from sglang.multimodal_gen.runtime.server_args import ServerArgs  # noqa: E402

SEEN: list[dict[str, Any]] = []


def server_args(model: str, max_batch: int) -> Any:
    """Return SGLang's own defaults, without the checks that need a checkpoint and a GPU."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(ServerArgs):
        if field.default is not dataclasses.MISSING:
            values[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            values[field.name] = field.default_factory()
    values |= {
        "model_path": f"/models/{model}",
        "served_model_name": model,
        "batching_max_size": max_batch,
        # One GPU, as SGLang would have worked out.
        **dict.fromkeys(("tp_size", "sp_degree", "ulysses_degree", "ring_degree"), 1),
        "pipeline_config": Cosmos3Config(),
        "attention_backend_config": SimpleNamespace(VSA_sparsity=0.0),
    }
    return SimpleNamespace(**values)


async def forward(request: Any) -> Any:
    """Answer as the pipeline does, with one generator for the whole request."""
    images = request.image_path if isinstance(request.image_path, list) else [request.image_path]
    prompts = request.prompt if isinstance(request.prompt, list) else [request.prompt]
    if "fail" in prompts[0]:
        return SimpleNamespace(error="the stub was asked to fail", output=None)
    generator = torch.Generator().manual_seed(request.seed)
    shape = (len(images), request.num_frames - 1, request.raw_action_dim)
    actions = torch.randn(shape, generator=generator)
    if "garbage" in prompts[0]:
        actions[0, 2, 1] = float("nan")
    SEEN.append(
        {
            "seed": request.seed,
            "prompts": prompts,
            "images": images,
            "actions": None if "garbage" in prompts[0] else actions.tolist(),
            "num_frames": request.num_frames,
            "height": request.height,
            "width": request.width,
            "fps": request.fps,
            "num_inference_steps": request.num_inference_steps,
            "domain_name": request.domain_name,
            "action_fps": request.action_fps,
            "action_view_point": request.action_view_point,
            "action_stats_path": request.action_stats_path,
        }
    )
    output = {
        "actions": actions.numpy(),
        "action_mode": request.action_mode,
        "domain_id": 5,
        "raw_action_dim": request.raw_action_dim,
        "parameters": {"num_inference_steps": request.num_inference_steps},
        "request_id": request.request_id,
    }
    return SimpleNamespace(error=None, output=[output])


def main() -> None:
    model, max_batch = sys.argv[1], int(sys.argv[2])
    # SGLang would look into the checkpoint's folder for what kind of model it is.
    protocol._resolve_action_sampling_params_cls = lambda _args: Cosmos3SamplingParams
    protocol.async_scheduler_client.forward = forward
    app = FastAPI()
    app.include_router(api.router)
    app.state.server_args = server_args(model, max_batch)
    app.get("/seen")(lambda: SEEN)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        config = uvicorn.Config(app, log_level="warning")
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
