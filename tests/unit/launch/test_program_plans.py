# SPDX-License-Identifier: Apache-2.0
"""What is started for a backend and for a platform, whichever way."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Struct
from rpent_box_toy.backend import BACKEND
from rpent_box_toy.platform import PLATFORM

from rpent_box.contracts.checkpoint import ExpectedFile, Inspection
from rpent_box.errors import BadOption
from rpent_box.launch.box import Box
from rpent_box.launch.program import Mount, Program, Running
from rpent_box.launch.simulator import simulator_output_dir, simulator_program
from rpent_box.launch.worker import worker_program
from rpent_box.sim.serve import _parser as simulator_parser
from rpent_box.worker.backend import BackendSpec, Device
from rpent_box.worker.needs import needs_of

IS_PATH = msgspec.Meta(extra={"path": True})


class PathOptions(Struct, frozen=True, kw_only=True):
    config: Annotated[str, IS_PATH] = "configs/in-the-image.yaml"
    statistics: Annotated[str | None, IS_PATH] = None
    speed: float = 1.0


class Containers(Struct, frozen=True):
    """A launcher that only says how its programs see the box."""

    name: Literal["docker"] = "docker"
    view: Literal["container"] = "container"

    def check(self, program: Program) -> None:
        raise NotImplementedError

    def sees_gpus(self) -> bool:
        raise NotImplementedError

    def start(self, program: Program, box: Box) -> Running:
        raise NotImplementedError


class Processes(Struct, frozen=True):
    name: Literal["process"] = "process"
    view: Literal["host"] = "host"

    def check(self, program: Program) -> None:
        raise NotImplementedError

    def sees_gpus(self) -> bool:
        raise NotImplementedError

    def start(self, program: Program, box: Box) -> Running:
        raise NotImplementedError


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Box.create(tmp_path / "rt") as one:
        yield one


def worker(
    box: Box,
    launcher: Containers | Processes,
    spec: BackendSpec = BACKEND,
    *,
    checkpoint: str | None = None,
    cuda_device: str | None = None,
    endpoint: str | None = None,
    options: tuple[str, ...] = ("--some-option=1",),
    device: Device | None = None,
    max_batch: int | None = None,
    max_wait_ms: float | None = None,
) -> Program:
    needs = needs_of(
        spec, spec.options(), checkpoint=checkpoint, device=device, cuda_device=cuda_device
    )
    return worker_program(
        spec,
        launcher,
        box,
        needs=needs,
        checkpoint=checkpoint,
        platform="toy",
        options=options,
        python="/usr/bin/python3",
        root=None,
        cuda_device=cuda_device,
        threads=2,
        log="/tmp/worker.log",
        image="an/image",
        endpoint=endpoint,
        max_batch=max_batch,
        max_wait_ms=max_wait_ms,
    )


def simulator(
    box: Box,
    launcher: Containers | Processes,
    tmp_path: Path,
    options: tuple[str, ...] = ("--step-delay-s=2.0",),
    **more: int | str,
) -> Program:
    return simulator_program(
        PLATFORM,
        launcher,
        box,
        options=options,
        output_dir=tmp_path / "run",
        threads=1,
        log="/tmp/simulator.log",
        python="/usr/bin/python3",
        image="a/simulator",
        **more,
    )


def value(program: Program, flag: str) -> str:
    return program.arguments[program.arguments.index(flag) + 1]


def mounts(program: Program) -> dict[str, Mount]:
    return {mount.target: mount for mount in program.mounts}


def test_how_a_worker_batches_is_its_own_choice_unless_it_is_told(box: Box) -> None:
    assert not {"--max-batch", "--max-wait-ms"} & set(worker(box, Processes()).arguments)
    told = worker(box, Processes(), max_batch=4, max_wait_ms=0.0)
    assert (value(told, "--max-batch"), value(told, "--max-wait-ms")) == ("4", "0")


def test_a_workers_words_are_the_hosts_paths_as_a_process(box: Box) -> None:
    program = worker(box, Processes())
    assert program.role == "worker"
    assert program.module == "rpent_box.worker.serve"
    assert program.arguments[0] == BACKEND.name
    assert value(program, "--endpoint") == box.paths.worker_endpoint
    assert value(program, "--box") == box.id
    assert value(program, "--view") == "host"
    assert value(program, "--lease") == str(box.paths.lease)
    assert value(program, "--platform") == "toy"
    assert value(program, "--threads") == "2"
    assert program.arguments[-1] == "--some-option=1"
    assert not program.network


def test_a_workers_words_are_the_containers_paths_in_a_container(box: Box) -> None:
    program = worker(box, Containers())
    assert value(program, "--endpoint") == "ipc:///run/rpent-box/sockets/worker.sock"
    assert value(program, "--view") == "container"
    assert value(program, "--lease") == "/run/rpent-box/lease"


def test_a_worker_sees_its_box_and_nothing_else_and_may_not_write_frames(box: Box) -> None:
    seen = mounts(worker(box, Containers()))
    assert {target: mount.read_only for target, mount in seen.items()} == {
        "/dev/shm": True,
        "/run/rpent-box/sockets": False,
        "/run/rpent-box/lease": True,
        "/run/rpent-box/results": False,
    }
    assert seen["/dev/shm"].source == str(box.paths.grants)


def test_a_simulator_may_write_frames_and_its_runs_folder(box: Box, tmp_path: Path) -> None:
    program = simulator(box, Containers(), tmp_path)
    seen = mounts(program)
    assert {target: mount.read_only for target, mount in seen.items()} == {
        "/dev/shm": False,
        "/run/rpent-box/sockets": False,
        "/run/rpent-box/lease": True,
        "/run/rpent-box/results": True,
        "/run/rpent-box/output": False,
    }
    assert seen["/run/rpent-box/output"].source == str(tmp_path / "run")
    assert value(program, "--endpoint") == "ipc:///run/rpent-box/sockets/sim-0.sock"


def test_simulators_of_one_box_have_sockets_of_their_own(box: Box, tmp_path: Path) -> None:
    program = simulator(box, Processes(), tmp_path, number=3)
    assert value(program, "--endpoint") == box.paths.sim_endpoint(3)


def test_the_simulators_words_are_understood_by_its_server(box: Box, tmp_path: Path) -> None:
    for launcher in (Containers(), Processes()):
        program = simulator(box, launcher, tmp_path)
        known, rest = simulator_parser().parse_known_args(program.arguments)
        assert known.platform == PLATFORM.name
        assert str(known.lease) == value(program, "--lease")
        assert rest == ["--step-delay-s=2.0"]


def test_the_output_folder_is_named_as_the_simulator_sees_it(tmp_path: Path) -> None:
    assert simulator_output_dir(Processes(), tmp_path) == str(tmp_path)
    assert simulator_output_dir(Containers(), tmp_path) == "/run/rpent-box/output"


def test_a_checkpoint_is_mounted_read_only_and_keeps_its_path(box: Box, tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights/toy.json").write_text("{}")
    program = worker(box, Containers(), checkpoint=str(tmp_path / "weights"), options=())
    assert value(program, "--checkpoint") == str(tmp_path / "weights")
    mount = mounts(program)[str(tmp_path / "weights")]
    assert (mount.source, mount.read_only) == (str(tmp_path / "weights"), True)


def test_what_lies_beside_a_single_file_of_weights_is_mounted_too(box: Box, tmp_path: Path) -> None:
    weights, statistics = tmp_path / "model.pt", tmp_path / "statistics.json"
    for path in (weights, statistics):
        path.write_bytes(b"{}")

    def inspect(options: object, path: Path, platform: str) -> Inspection:
        beside = path.with_name("statistics.json")
        return Inspection(
            files=(
                ExpectedFile(role="weights", path=str(path)),
                ExpectedFile(role="statistics", path=str(beside)),
            )
        )

    spec = msgspec.structs.replace(BACKEND, inspect=inspect)
    program = worker(box, Containers(), spec, checkpoint=str(weights), options=())
    for path in (weights, statistics):
        mount = mounts(program)[str(path)]
        assert (mount.source, mount.read_only) == (str(path), True)


def test_a_checkpoint_that_is_not_there_is_refused_before_anything_starts(box: Box) -> None:
    with pytest.raises(BadOption, match="there is no checkpoint at /nonexistent"):
        worker(box, Processes(), checkpoint="/nonexistent")


def test_an_empty_path_is_not_the_current_folder(box: Box) -> None:
    with pytest.raises(BadOption, match="the checkpoint is an empty path"):
        worker(box, Processes(), checkpoint="")


def test_a_process_is_planned_without_a_second_look_at_its_checkpoint(
    box: Box, tmp_path: Path
) -> None:
    spec = msgspec.structs.replace(
        BACKEND, inspect=lambda options, path, platform: pytest.fail("looked at again")
    )
    assert value(worker(box, Processes(), spec, checkpoint=str(tmp_path)), "--checkpoint")


def test_gpus_are_those_asked_for_or_all_for_a_model_that_needs_one(box: Box) -> None:
    needing = msgspec.structs.replace(BACKEND, needs_gpu=True)
    without = msgspec.structs.replace(BACKEND, needs_gpu=False)
    assert worker(box, Containers(), needing).gpus == ("all",)
    assert worker(box, Containers(), without).gpus == ()
    assert worker(box, Containers(), without, cuda_device="GPU-1234").gpus == ("GPU-1234",)
    assert worker(box, Containers(), needing, cuda_device="0, 1").gpus == ("0", "1")


def test_on_the_cpu_a_model_gets_no_gpu_and_its_other_image_is_named(box: Box) -> None:
    needing = msgspec.structs.replace(BACKEND, needs_gpu=True, variants=("cpu",))
    with_gpu, without = (
        worker(box, Containers(), needing),
        worker(box, Containers(), needing, device="cpu"),
    )
    assert (value(with_gpu, "--device"), with_gpu.gpus, with_gpu.variant) == ("cuda", ("all",), "")
    assert (value(without, "--device"), without.gpus, without.variant) == ("cpu", (), "cpu")


def test_a_checkpoint_that_is_only_a_name_is_passed_on_as_it_is(box: Box) -> None:
    naming = msgspec.structs.replace(BACKEND, checkpoint_is="name", inspect=None)
    program = worker(box, Containers(), naming, checkpoint="org/model")
    assert value(program, "--checkpoint") == "org/model"
    assert set(mounts(program)) == set(mounts(worker(box, Containers())))


def test_what_is_read_beside_a_checkpoint_that_is_only_a_name_is_mounted(
    box: Box, tmp_path: Path
) -> None:
    statistics = tmp_path / "statistics.json"
    statistics.write_bytes(b"{}")

    def inspect(options: object, path: Path, platform: str) -> Inspection:
        return Inspection(files=(ExpectedFile(role="statistics", path=str(statistics)),))

    naming = msgspec.structs.replace(BACKEND, checkpoint_is="name", inspect=inspect)
    program = worker(box, Containers(), naming, checkpoint="org/model", options=())
    mount = mounts(program)[str(statistics)]
    assert (mount.source, mount.read_only) == (str(statistics), True)


def test_only_a_declared_need_or_a_tcp_endpoint_opens_the_network(box: Box) -> None:
    needing = msgspec.structs.replace(BACKEND, needs_network=True)
    assert worker(box, Containers(), needing).network
    listening = worker(box, Containers(), endpoint="tcp://127.0.0.1:0")
    assert listening.network
    assert value(listening, "--endpoint") == "tcp://127.0.0.1:0"


def test_a_path_among_a_workers_options_is_seen_in_its_container_and_read_only(
    box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blob, link = tmp_path / "blobs" / "1234", tmp_path / "statistics.json"
    blob.parent.mkdir()
    blob.write_text("{}")
    link.symlink_to(blob)
    spec = msgspec.structs.replace(BACKEND, options=PathOptions)
    words = ("--statistics=statistics.json", "--speed=2.0")
    program = worker(box, Containers(), spec, options=words)
    assert program.arguments[-2:] == (f"--statistics={link}", "--speed=2.0")
    seen = mounts(program)
    assert seen[str(link)] == Mount(str(link), str(link), read_only=True)
    assert seen[str(blob.parent)].read_only
    assert not any("in-the-image" in target for target in seen)
    assert worker(box, Processes(), spec, options=words).arguments == (
        *worker(box, Processes(), spec, options=()).arguments,
        f"--statistics={link}",
        "--speed=2.0",
    )


def test_a_path_among_the_options_that_leads_nowhere_is_refused(box: Box) -> None:
    spec = msgspec.structs.replace(BACKEND, options=PathOptions)
    with pytest.raises(BadOption, match="no file or folder at /nowhere") as caught:
        worker(box, Containers(), spec, options=("--config=/nowhere",))
    assert "--config PATH" in caught.value.hint


def test_a_path_among_a_simulators_options_is_seen_in_its_container_and_read_only(
    box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    drawn, assets = tmp_path / "drawn", tmp_path / "assets"
    drawn.mkdir()
    assets.mkdir()
    (assets / "meshes").symlink_to(drawn)
    words = ("--assets-path", "assets", "--step-delay-s=2.0")
    program = simulator(box, Containers(), tmp_path, words)
    assert program.arguments[-2:] == ("--step-delay-s=2.0", f"--assets-path={assets}")
    seen = mounts(program)
    # Where a link leads is mounted too, or it would lead nowhere in the container.
    for folder in (assets, drawn):
        assert seen[str(folder)] == Mount(str(folder), str(folder), read_only=True)
    as_process = simulator(box, Processes(), tmp_path, words)
    assert as_process.arguments[-1] == f"--assets-path={assets}"
    # A process sees everything as it is: nobody walks through its assets.
    assert str(assets) not in mounts(as_process)


def test_a_path_of_a_simulator_that_leads_nowhere_is_refused_by_the_name_people_type(
    box: Box, tmp_path: Path
) -> None:
    with pytest.raises(BadOption, match="no file or folder at /nowhere") as caught:
        simulator(box, Containers(), tmp_path, ("--assets-path=/nowhere",))
    assert "--toy-assets-path PATH" in caught.value.hint


def test_a_simulator_may_draw_on_a_gpu_where_one_is_given(box: Box, tmp_path: Path) -> None:
    assert simulator(box, Containers(), tmp_path).gpus == ()
    assert simulator(box, Containers(), tmp_path, cuda_device="GPU-1, 2").gpus == ("GPU-1", "2")
