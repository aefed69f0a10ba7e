# SPDX-License-Identifier: Apache-2.0
from contextlib import nullcontext
from pathlib import Path

import pytest
from msgspec.structs import replace
from rpent_box_toy.backend import META as MODEL
from rpent_box_toy.platform import META

from rpent_box.contracts.control_messages import (
    ConnectWorker,
    PlayEpisode,
    SimReady,
    WorkerConnected,
)
from rpent_box.errors import ContractError, IncompatibleWorker, SimulatorHangs, StartTimeout
from rpent_box.evaluate import seat as seat_module
from rpent_box.evaluate.seat import Patience, SimulatorSeat
from rpent_box.launch.program import Program

READY = SimReady(protocol=1, platform=META, versions={"mujoco": "3.3.2"}, renderer="egl, a GPU")
CONNECTED = WorkerConnected(meta=MODEL, worker_version="1")
PROGRAM = Program(
    role="simulator",
    name="toy",
    module="m",
    arguments=(),
    image="",
    python="",
    root=None,
    log="/runs/run-1/simulator.log",
)
PLAY = PlayEpisode(
    suite="s", task=0, init_state=0, episode=0, seed=7, max_steps=4, output_dir="/nowhere"
)


class FakePrograms:
    """Programs of which nothing runs; remembers what was put where."""

    simulator = None

    def __init__(self):
        self.started = []

    def watch(self):
        """All live."""

    def explaining(self):
        return nullcontext()

    def replace_simulator(self, program, endpoint):
        self.started.append((program.log, endpoint))


class FakeClient:
    """The line to a simulator that says what a test wants."""

    made = []
    ready = READY
    connected = CONNECTED

    def __init__(self, endpoint, *, watch):
        self.endpoint = endpoint
        self.closed = 0
        self.limits = None
        self.made.append(self)

    def wait_ready(self, *, timeout_s, on_phase):
        on_phase("importing the simulator")
        if isinstance(self.ready, Exception):
            raise self.ready
        return self.ready

    def connect_worker(self, wanted, *, timeout_s):
        return self.connected

    def play(self, play, on_progress, **limits):
        self.asked, self.limits = play, limits
        return "played"

    def close(self):
        self.closed += 1


@pytest.fixture
def programs():
    return FakePrograms()


@pytest.fixture
def seat(programs, monkeypatch):
    monkeypatch.setattr(seat_module, "SimClient", FakeClient)
    monkeypatch.setattr(FakeClient, "made", [])
    made = SimulatorSeat(
        programs,
        PROGRAM,
        endpoint="ipc:///box/sim-0.sock",
        connect=ConnectWorker(endpoint="ipc:///box/worker.sock", box=None, prediction_timeout_s=9),
        patience=Patience(start_s=1, episode_s=3, stall_s=2),
    )
    made.connect(READY)
    return made


def test_each_simulator_has_a_log_of_its_own_at_the_same_address(seat, programs):
    phases = []
    assert seat.log == "simulator.log"
    for number in (1, 2):
        seat.replace(phases.append)
        assert seat.log == f"simulator.{number}.log"
    assert programs.started == [
        ("/runs/run-1/simulator.1.log", "ipc:///box/sim-0.sock"),
        ("/runs/run-1/simulator.2.log", "ipc:///box/sim-0.sock"),
    ]
    assert phases == ["importing the simulator"] * 2
    assert [client.closed for client in FakeClient.made] == [1, 1, 0]


@pytest.mark.parametrize(
    ("run_dir", "log"),
    [
        ("/runs/run-1", "simulator.log"),
        ("/runs", "run-1/simulator.log"),
        ("/room/episodes", "simulator.log"),
    ],
)
def test_a_log_is_called_as_it_is_within_the_runs_folder_or_by_its_name(
    programs, monkeypatch, run_dir, log
):
    monkeypatch.setattr(seat_module, "SimClient", FakeClient)
    seat = SimulatorSeat(
        programs,
        PROGRAM,
        endpoint="ipc:///box/sim-0.sock",
        connect=ConnectWorker(endpoint="ipc:///box/worker.sock", box=None),
        patience=Patience(start_s=1, episode_s=3, stall_s=2),
        run_dir=Path(run_dir),
    )
    assert seat.log == log


def test_the_patience_is_told_to_the_simulator_and_kept_here(seat):
    assert seat.play(PLAY, lambda _: None) == "played"
    assert seat.client.asked == replace(PLAY, stall_timeout_s=2)
    assert seat.client.limits == {
        "timeout_s": 3,
        "stall_timeout_s": 2,
        "prediction_timeout_s": 9,
    }


def test_a_replacement_that_is_never_ready_hangs(seat, monkeypatch):
    monkeypatch.setattr(FakeClient, "ready", StartTimeout("it stood at: importing"))
    with pytest.raises(SimulatorHangs, match="it stood at: importing"):
        seat.replace(lambda _: None)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"renderer": "osmesa"}, "renderer was egl, a GPU, is osmesa"),
        ({"versions": {"mujoco": "3.4.0"}}, "3.4.0"),
    ],
)
def test_a_replacement_that_would_draw_or_simulate_otherwise_is_refused(
    seat, monkeypatch, changed, named
):
    monkeypatch.setattr(FakeClient, "ready", replace(READY, **changed))
    with pytest.raises(ContractError, match=named):
        seat.replace(lambda _: None)


def test_a_worker_that_has_become_another_is_refused(seat, monkeypatch):
    other = replace(CONNECTED, meta=replace(MODEL, checkpoint="newer"))
    monkeypatch.setattr(FakeClient, "connected", other)
    with pytest.raises(IncompatibleWorker, match=r"was toy \(built-in\), is toy \(newer\)"):
        seat.replace(lambda _: None)


def test_leaving_the_block_hangs_up(seat):
    with seat:
        pass
    seat.close()
    assert FakeClient.made[0].closed >= 1


def test_a_seat_that_others_had_before_goes_on_counting_its_logs(programs, monkeypatch):
    monkeypatch.setattr(seat_module, "SimClient", FakeClient)
    made = SimulatorSeat(
        programs,
        replace(PROGRAM, log="/runs/run-1/session-1/simulator-3.2.log"),
        endpoint="ipc:///box/sim-3.sock",
        connect=ConnectWorker(endpoint="ipc:///box/worker.sock", box=None),
        patience=Patience(start_s=1, episode_s=3, stall_s=2),
        run_dir=Path("/runs/run-1"),
        first_log=Path("/runs/run-1/session-1/simulator-3.log"),
        earlier=2,
    )
    assert made.log == "session-1/simulator-3.2.log"
    made.replace(lambda _: None)
    assert (made.log, made.replaced) == ("session-1/simulator-3.3.log", 3)
    assert (made.ready, made.connected) == (READY, CONNECTED)
    assert programs.started == [
        ("/runs/run-1/session-1/simulator-3.3.log", "ipc:///box/sim-3.sock"),
    ]
