# SPDX-License-Identifier: Apache-2.0
"""What a worker needs besides its options: where it computes, a checkpoint, a network."""

from __future__ import annotations

from msgspec import Struct

from rpent_box.errors import BadOption, UsageError
from rpent_box.worker.backend import BackendSpec, Device


class Needs(Struct, frozen=True, kw_only=True):
    """What was chosen for one worker, and what follows from it."""

    device: Device
    """Where the model computes; `cpu` too where a service does it instead."""
    cpu_variant: bool = False
    """It takes the CPU variant of a model that else needs a GPU."""
    service: str = ""
    """The running service that it borrows; empty: it loads the model itself."""
    network: bool = False
    """It speaks to something outside of its container."""


def needs_of(
    spec: BackendSpec,
    options: Struct,
    *,
    checkpoint: str | None,
    device: Device | None,
    cuda_device: str | None = None,
) -> Needs:
    """Return what a worker of `spec` needs with `options`, an instance of `spec.options`.

    `device` is what was asked for; None: a GPU if the model needs one. Raises `UsageError` for
    what excludes each other, `BadOption` for what the backend cannot do, or lacks.
    """
    service = str(getattr(options, spec.borrows) or "") if spec.borrows else ""
    if service:
        _check_borrowing(spec, service, checkpoint, device, cuda_device)
    elif spec.needs_checkpoint and not checkpoint:
        raise _no_checkpoint(spec)
    if device is not None and device not in _devices(spec, service):
        raise _no_such_device(spec, device)
    if device == "cpu" and cuda_device is not None:
        raise UsageError(
            f"--device cpu and --cuda-device {cuda_device} exclude each other",
            hint="Leave one of them out.",
        )
    chosen: Device = device or ("cuda" if spec.needs_gpu and not service else "cpu")
    return Needs(
        device=chosen,
        # Of a borrowing worker only where asked for: both images can borrow, the default is built.
        cpu_variant=device == "cpu" and spec.needs_gpu and "cpu" in spec.variants,
        service=service,
        network=spec.needs_network or bool(service),
    )


def require_platform(spec: BackendSpec, platform: str) -> None:
    """Raise `BadOption` for a platform that `spec` has no adapter for."""
    if platform not in spec.platforms:
        raise BadOption(
            f"{spec.name} has no adapter for the platform {platform}",
            hint=f"It has adapters for: {', '.join(spec.platforms)}. See: rpent-box list",
        )


def _devices(spec: BackendSpec, service: str) -> tuple[Device, ...]:
    """Return where the model can compute, the default first."""
    if service or not spec.needs_gpu:
        return ("cpu",)
    return ("cuda", "cpu") if "cpu" in spec.variants else ("cuda",)


def _check_borrowing(
    spec: BackendSpec,
    service: str,
    checkpoint: str | None,
    device: Device | None,
    cuda_device: str | None,
) -> None:
    flag = "--" + spec.borrows.replace("_", "-")
    owned_only = {
        "--checkpoint": checkpoint if spec.checkpoint_is == "path" else None,
        "--device cuda": device if device == "cuda" else None,
        "--cuda-device": cuda_device,
    }
    given = [name for name, value in owned_only.items() if value is not None]
    if given:
        raise UsageError(
            f"{flag} excludes {', '.join(given)}: the service at {service} runs already, with "
            "weights and a GPU of its own",
            hint="Leave one of them out.",
        )


def _no_checkpoint(spec: BackendSpec) -> BadOption:
    what = "PATH" if spec.checkpoint_is == "path" else "NAME"
    borrowing = f", or borrow a service: --{spec.borrows.replace('_', '-')} ADDRESS"
    return BadOption(
        f"{spec.name} has no built-in weights",
        hint=f"Give them: --checkpoint {what}{borrowing * bool(spec.borrows)}",
    )


def _no_such_device(spec: BackendSpec, device: Device) -> BadOption:
    if device == "cpu":
        return BadOption(
            f"{spec.name} has no CPU variant: it computes on an NVIDIA GPU only",
            hint="Leave --device out, or give --device cuda.",
        )
    return BadOption(
        f"{spec.name} computes on the CPU only", hint="Leave --device out, or give --device cpu."
    )
