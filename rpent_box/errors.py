# SPDX-License-Identifier: Apache-2.0
"""Every error that rpent-box raises on purpose. Each says what came, what was wanted, what to do.

    RpentBoxError
    ├── UsageError                 wrong words on the command line (exit code 2)
    │   ├── UnknownName            no such backend, platform, suite or task
    │   ├── BadOption              an option's value cannot be used
    │   └── BadCheckpoint          files are missing, cut, or belong to another model or suite
    ├── ContractError              two sides do not fit; raised before a robot moves
    │   ├── IncompatibleWorker     control, cameras, proprio or chunk size do not match
    │   ├── BadObservation         an observation is not what the model's meta declares
    │   └── BadActions             a prediction has a wrong shape, length or value
    ├── TransportError
    │   ├── StaleFrame             the slot was written again while it was read, or long ago
    │   ├── NoFreeSlot             every slot is held; names the holder and its age
    │   ├── SharedMemoryFull       /dev/shm cannot hold the segment
    │   ├── SocketBusy             another program is bound to that path
    │   ├── ProtocolMismatch       the other side speaks another protocol version, or none
    │   ├── DeadlineExceeded       no answer in time
    │   └── PeerGone               the other side's process has ended
    ├── WorkerError
    │   ├── WorkerNotReady         still starting, loading or warming
    │   ├── WorkerDraining         finishing what it has; takes nothing new
    │   ├── WorkerBusy             this connection has too many unanswered requests there
    │   ├── SessionGone            this connection has no memory there, or no longer
    │   ├── WorkerFailed           the model could not be loaded; carries the traceback
    │   └── PredictionFailed       the model raised; carries the traceback
    ├── SimulatorError             the simulator raised; carries the traceback
    │   └── SimulatorHangs         its program runs and does not go on; says where it stood
    ├── LaunchError
    │   ├── EngineMissing          no Docker engine answers
    │   ├── ImageMissing           an image is not built
    │   ├── EnvironmentMissing     a Python environment is not built
    │   ├── AssetsMissing          a simulator's meshes and textures are not there, or not whole
    │   ├── ProgramDied            a worker or simulator ended; carries its last log lines
    │   └── StartTimeout           not ready in time; says in which phase it stood
    ├── BrokenPlugin               a backend or platform that is installed cannot be imported
    └── OutputError                the run's folder cannot be written

An error crosses a process border as `Fault` (contracts.messages): its `code`, its text and its
detail. `from_code` makes the same class again on the other side.
"""

from __future__ import annotations

from collections.abc import Iterator


class RpentBoxError(Exception):
    """What went wrong, what to do next, and evidence that only `--verbose` shows."""

    code = "error"
    """Names the class on the wire."""

    def __init__(self, message: str, *, hint: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        """The next step, one line. Empty when there is none."""
        self.detail = detail
        """A traceback or the last log lines. Empty when there are none."""

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(RpentBoxError):
    code = "usage"


class UnknownName(UsageError):
    code = "unknown_name"


class BadOption(UsageError):
    code = "bad_option"


class BadCheckpoint(UsageError):
    code = "bad_checkpoint"


class ContractError(RpentBoxError):
    code = "contract"


class IncompatibleWorker(ContractError):
    code = "incompatible_worker"


class BadObservation(ContractError):
    code = "bad_observation"


class BadActions(ContractError):
    code = "bad_actions"


class TransportError(RpentBoxError):
    code = "transport"


class StaleFrame(TransportError):
    code = "stale"


class NoFreeSlot(TransportError):
    code = "no_free_slot"


class SharedMemoryFull(TransportError):
    code = "shared_memory_full"


class SocketBusy(TransportError):
    code = "socket_busy"


class ProtocolMismatch(TransportError):
    code = "protocol_mismatch"


class DeadlineExceeded(TransportError):
    code = "deadline_exceeded"


class PeerGone(TransportError):
    code = "peer_gone"


class WorkerError(RpentBoxError):
    code = "worker"


class WorkerNotReady(WorkerError):
    code = "worker_not_ready"


class WorkerDraining(WorkerError):
    code = "worker_draining"


class WorkerBusy(WorkerError):
    code = "worker_busy"


class SessionGone(WorkerError):
    code = "session_gone"


class WorkerFailed(WorkerError):
    code = "worker_failed"


class PredictionFailed(WorkerError):
    code = "prediction_failed"


class SimulatorError(RpentBoxError):
    code = "simulator"


class SimulatorHangs(SimulatorError):
    code = "simulator_hangs"


class LaunchError(RpentBoxError):
    code = "launch"


class EngineMissing(LaunchError):
    code = "engine_missing"


class ImageMissing(LaunchError):
    code = "image_missing"


class EnvironmentMissing(LaunchError):
    code = "environment_missing"


class AssetsMissing(LaunchError):
    code = "assets_missing"


class ProgramDied(LaunchError):
    code = "program_died"


class StartTimeout(LaunchError):
    code = "start_timeout"


class BrokenPlugin(RpentBoxError):
    code = "broken_plugin"


class OutputError(RpentBoxError):
    code = "output"


def _descendants(kind: type[RpentBoxError]) -> Iterator[type[RpentBoxError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _descendants(child)


def codes() -> frozenset[str]:
    """Return every code that an error may have."""
    return frozenset(kind.code for kind in _descendants(RpentBoxError))


def from_code(code: str, message: str, *, hint: str = "", detail: str = "") -> RpentBoxError:
    """Rebuild the error that the other side raised; an unknown code gives `RpentBoxError`."""
    for kind in _descendants(RpentBoxError):
        if kind.code == code:
            return kind(message, hint=hint, detail=detail)
    return RpentBoxError(f"{code}: {message}", hint=hint, detail=detail)
