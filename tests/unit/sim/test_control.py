# SPDX-License-Identifier: Apache-2.0
import threading
import time
from types import SimpleNamespace

import msgspec
import pytest
from msgspec.structs import replace
from rpent_box_toy.backend import MISMATCHES, ToyBackend, ToyBackendOptions
from rpent_box_toy.platform import META, ToyOptions, ToyPlatform

from rpent_box.contracts.control_messages import (
    ConnectWorker,
    PlayEpisode,
    Progress,
    SimHello,
)
from rpent_box.contracts.messages import Welcome
from rpent_box.errors import (
    DeadlineExceeded,
    IncompatibleWorker,
    PeerGone,
    ProgramDied,
    ProtocolMismatch,
    SimulatorError,
    SimulatorHangs,
    StartTimeout,
)
from rpent_box.sim import client as client_module
from rpent_box.sim.client import SimClient, await_death
from rpent_box.sim.control import ControlAnswer, ControlQuestion, ControlServer
from rpent_box.sim.server import SimServer
from rpent_box.transport.dealer import Dealer
from rpent_box.version import __version__
from rpent_box.worker.backend import PredictionInput

PATIENCE_S = 60.0
"""For what takes milliseconds, unless the machine is starved."""

WELCOME = Welcome(protocol=1, backend="toy", kind="vla", state="ready", version="9.9")


class ToyPolicy:
    """A connected client of the toy backend, without a worker."""

    welcome = WELCOME
    seen = None

    def __init__(self, meta=None):
        self._backend = ToyBackend(ToyBackendOptions())
        self.meta = meta or self._backend.meta
        self.closed = 0

    def predict(self, observation, *, episode=None):
        request = PredictionInput(observation=observation, session="s", episode=episode)
        return self._backend.predict(request)

    def reset(self):
        """It remembers nothing."""

    def close(self):
        self.closed += 1


class ServedSimulator:
    """A simulator server on a thread, as its program would run it."""

    def __init__(self, endpoint, *, open_platform, connect):
        self.endpoint = endpoint
        self.control = ControlServer(endpoint)
        self.exit_code = None
        self._server = SimServer(open_platform, self.control, connect)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        with self.control:
            self.exit_code = self._server.run()
            self._server.close()
            self._server.close()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        with SimClient(self.endpoint, watch=nobody_died) as client:
            client.poll_ready()
            client.shut_down()
        self.join()

    def join(self):
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


def nobody_died():
    """All programs live."""


@pytest.fixture
def endpoint(tmp_path):
    return f"ipc://{tmp_path}/sim.sock"


@pytest.fixture
def play(tmp_path):
    return PlayEpisode(
        suite="toy_easy",
        task=0,
        init_state=2,
        episode=0,
        seed=7,
        max_steps=40,
        output_dir=str(tmp_path),
    )


CONNECT = ConnectWorker(endpoint="ipc:///nowhere", box=None, fitting=("toy",))
LIMITS = {"timeout_s": PATIENCE_S, "stall_timeout_s": PATIENCE_S}


def toy_simulator(endpoint, options=None, meta=None):
    return ServedSimulator(
        endpoint,
        open_platform=lambda: ToyPlatform(options or ToyOptions()),
        connect=lambda wanted, platform: ToyPolicy(meta),
    )


def test_a_host_sees_the_phases_then_connects_and_plays(endpoint, play):
    phases, told = [], []
    seen = threading.Event()

    def open_platform():
        seen.wait(PATIENCE_S)
        return ToyPlatform(ToyOptions())

    def on_phase(phase):
        phases.append(phase)
        if phase == "importing the simulator":
            seen.set()

    with (
        ServedSimulator(
            endpoint, open_platform=open_platform, connect=lambda wanted, platform: ToyPolicy()
        ) as served,
        SimClient(endpoint, watch=nobody_died) as client,
    ):
        ready = client.wait_ready(timeout_s=PATIENCE_S, on_phase=on_phase)
        connected = client.connect_worker(CONNECT, timeout_s=PATIENCE_S)
        played = client.play(play, told.append, **LIMITS)
    assert phases[-2:] == ["importing the simulator", "ready"]
    assert ready.platform == META
    assert ready.renderer == "numpy"
    assert ready.versions["rpent-box"] == __version__
    assert {"numpy", "python"} <= set(ready.versions)
    assert (connected.meta.backend, connected.worker_version) == ("toy", "9.9")
    assert played.success
    assert told[0].phase == "resetting"
    assert told[-1].steps == played.steps
    assert served.exit_code == 0


def test_a_client_may_wait_before_the_server_has_bound(endpoint):
    client = SimClient(endpoint, watch=nobody_died)
    assert client.poll_ready() is None
    assert client.phase == "starting"
    with toy_simulator(endpoint), client:
        assert client.wait_ready(timeout_s=PATIENCE_S).platform == META


@pytest.mark.parametrize("kind", ["control", "cameras", "proprio", "chunk"])
def test_a_worker_that_does_not_fit_is_refused_and_closed(endpoint, play, kind):
    policies = []

    def connect(wanted, platform):
        policies.append(ToyPolicy(MISMATCHES[kind]))
        return policies[-1]

    with (
        ServedSimulator(endpoint, open_platform=lambda: ToyPlatform(ToyOptions()), connect=connect),
        SimClient(endpoint, watch=nobody_died) as client,
    ):
        client.wait_ready(timeout_s=PATIENCE_S)
        with pytest.raises(IncompatibleWorker, match="does not fit toy") as caught:
            client.connect_worker(CONNECT, timeout_s=PATIENCE_S)
        assert "Backends that fit toy: toy" in caught.value.hint
        assert [policy.closed for policy in policies] == [1]
        with pytest.raises(SimulatorError, match="before a worker is connected"):
            client.play(play, lambda _: None, **LIMITS)


def test_connecting_anew_closes_the_connection_before(endpoint):
    policies = []

    def connect(wanted, platform):
        policies.append(ToyPolicy())
        return policies[-1]

    with (
        ServedSimulator(
            endpoint, open_platform=lambda: ToyPlatform(ToyOptions()), connect=connect
        ) as served,
        SimClient(endpoint, watch=nobody_died) as client,
    ):
        client.wait_ready(timeout_s=PATIENCE_S)
        client.connect_worker(CONNECT, timeout_s=PATIENCE_S)
        client.connect_worker(CONNECT, timeout_s=PATIENCE_S)
        assert [policy.closed for policy in policies] == [1, 0]
    served.join()
    assert [policy.closed for policy in policies] == [1, 1]


@pytest.mark.parametrize("where", ["reset", "apply"])
def test_what_the_simulator_raises_arrives_with_its_traceback_and_it_stays_up(
    endpoint, play, where
):
    with (
        toy_simulator(endpoint, ToyOptions(breaks=where)),
        SimClient(endpoint, watch=nobody_died) as client,
    ):
        client.wait_ready(timeout_s=PATIENCE_S)
        client.connect_worker(CONNECT, timeout_s=PATIENCE_S)
        for _ in range(2):
            with pytest.raises(SimulatorError, match=f"the toy broke at {where}") as caught:
                client.play(play, lambda _: None, **LIMITS)
            assert "_break_at" in caught.value.detail


def test_a_simulator_that_cannot_be_opened_says_why_and_ends_with_1(endpoint):
    served = toy_simulator(endpoint, ToyOptions(breaks="open", open_delay_s=0.2))
    served._thread.start()
    with (
        SimClient(endpoint, watch=nobody_died) as client,
        pytest.raises(SimulatorError, match="the toy broke at open") as caught,
    ):
        client.wait_ready(timeout_s=PATIENCE_S)
    assert "Traceback" in caught.value.detail
    served.join()
    assert served.exit_code == 1


def test_a_worker_that_is_gone_is_told_as_such(endpoint):
    def connect(wanted, platform):
        raise PeerGone("nothing listens there")

    with (
        ServedSimulator(endpoint, open_platform=lambda: ToyPlatform(ToyOptions()), connect=connect),
        SimClient(endpoint, watch=nobody_died) as client,
    ):
        client.wait_ready(timeout_s=PATIENCE_S)
        with pytest.raises(PeerGone, match="nothing listens there"):
            client.connect_worker(CONNECT, timeout_s=PATIENCE_S)


def test_a_simulator_that_is_never_ready_is_a_timeout_that_names_its_phase(endpoint):
    may_open = threading.Event()

    def open_platform():
        may_open.wait(PATIENCE_S)
        return ToyPlatform(ToyOptions())

    with (
        ServedSimulator(
            endpoint, open_platform=open_platform, connect=lambda wanted, platform: ToyPolicy()
        ) as served,
        SimClient(endpoint, watch=nobody_died) as client,
    ):
        deadline = time.monotonic() + PATIENCE_S
        while client.phase == "starting" and time.monotonic() < deadline:
            client.poll_ready()
        with pytest.raises(StartTimeout, match="it stood at: importing the simulator"):
            client.wait_ready(timeout_s=0.3)
        may_open.set()
        assert client.wait_ready(timeout_s=PATIENCE_S).platform == META
    assert served.exit_code == 0


def test_a_chunk_without_a_sign_of_progress_is_a_hang_that_names_the_step(endpoint, play):
    options = ToyOptions(step_delay_s=0.3)
    with (
        toy_simulator(endpoint, options),
        SimClient(endpoint, watch=nobody_died) as client,
    ):
        client.wait_ready(timeout_s=PATIENCE_S)
        client.connect_worker(CONNECT, timeout_s=PATIENCE_S)
        short = replace(play, max_steps=4)
        with pytest.raises(SimulatorHangs, match=r"it stood at: acting, step 0 of 4"):
            # The time for a prediction is no time for a chunk.
            client.play(
                short,
                lambda _: None,
                timeout_s=PATIENCE_S,
                stall_timeout_s=0.4,
                prediction_timeout_s=PATIENCE_S,
            )


class Slow(ToyPolicy):
    """A policy whose predictions take half a second."""

    def predict(self, observation, *, episode=None):
        time.sleep(0.5)
        return super().predict(observation, episode=episode)


@pytest.mark.parametrize(("prediction_timeout_s", "goes_on"), [(PATIENCE_S, True), (0.0, False)])
def test_only_while_the_model_is_awaited_is_its_time_allowed(
    endpoint, play, prediction_timeout_s, goes_on
):
    with (
        ServedSimulator(
            endpoint,
            open_platform=lambda: ToyPlatform(ToyOptions()),
            connect=lambda wanted, platform: Slow(),
        ),
        SimClient(endpoint, watch=nobody_died) as client,
    ):
        client.wait_ready(timeout_s=PATIENCE_S)
        client.connect_worker(CONNECT, timeout_s=PATIENCE_S)
        limits = {"stall_timeout_s": 0.2, "prediction_timeout_s": prediction_timeout_s}
        told = []
        hard = replace(play, suite="toy_hard", max_steps=8)
        if goes_on:
            played = client.play(hard, told.append, timeout_s=PATIENCE_S, **limits)
            assert played.steps == 8
        else:
            with pytest.raises(SimulatorHangs, match="it stood at: predicting, step 0 of 8"):
                client.play(hard, told.append, timeout_s=PATIENCE_S, **limits)


def test_one_that_hangs_in_the_video_stood_at_a_frame(endpoint, play, monkeypatch):
    def hang(*_, on_frame, **__):
        on_frame(10)
        time.sleep(2.5)

    monkeypatch.setattr("rpent_box.sim.episode.write_video", hang)
    with (
        toy_simulator(endpoint, ToyOptions()),
        SimClient(endpoint, watch=nobody_died) as client,
    ):
        client.wait_ready(timeout_s=PATIENCE_S)
        client.connect_worker(CONNECT, timeout_s=PATIENCE_S)
        filmed = replace(play, video="all")
        with pytest.raises(SimulatorHangs) as caught:
            client.play(filmed, lambda _: None, timeout_s=PATIENCE_S, stall_timeout_s=1.5)
        assert caught.value.message.endswith("; it stood at: writing video, frame 10")
        assert "the simulator's log in the run's folder" in caught.value.hint


def test_going_on_for_too_long_is_no_hang(endpoint, play):
    with (
        toy_simulator(endpoint, ToyOptions(step_delay_s=0.02)),
        SimClient(endpoint, watch=nobody_died) as client,
    ):
        client.wait_ready(timeout_s=PATIENCE_S)
        client.connect_worker(CONNECT, timeout_s=PATIENCE_S)
        endless = replace(play, suite="toy_hard", max_steps=100)
        with pytest.raises(DeadlineExceeded, match=r"goes on, but did not end within 0 s"):
            client.play(endless, lambda _: None, timeout_s=0.3, stall_timeout_s=PATIENCE_S)


def test_a_pause_of_the_host_itself_is_not_taken_for_silence(endpoint, play, monkeypatch):
    monkeypatch.setattr(client_module, "LONGEST_LOOK_S", 0.05)
    pauses = []

    def stopped_meanwhile():
        # As with Ctrl-Z: everything stands still in here, for far longer than the limit.
        if not pauses:
            pauses.append(1)
            time.sleep(1.0)

    options = ToyOptions(step_delay_s=0.15)
    with toy_simulator(endpoint, options), SimClient(endpoint, watch=nobody_died) as client:
        client.wait_ready(timeout_s=PATIENCE_S)
        client.connect_worker(CONNECT, timeout_s=PATIENCE_S)
        client._watch = stopped_meanwhile
        short = replace(play, max_steps=12, suite="toy_hard")
        played = client.play(short, lambda _: None, timeout_s=1.5, stall_timeout_s=0.9)
    assert pauses
    assert played.steps == 12


def test_a_server_that_does_not_answer_when_asked_to_connect_hangs(endpoint):
    may_connect = threading.Event()

    def connect(wanted, platform):
        may_connect.wait(PATIENCE_S)
        return ToyPolicy()

    with (
        ServedSimulator(endpoint, open_platform=lambda: ToyPlatform(ToyOptions()), connect=connect),
        SimClient(endpoint, watch=nobody_died) as client,
    ):
        client.wait_ready(timeout_s=PATIENCE_S)
        with pytest.raises(SimulatorHangs, match="was asked to connect to the worker"):
            client.connect_worker(CONNECT, timeout_s=0.3)
        may_connect.set()


def test_what_is_told_has_left_before_the_teller_goes_on(endpoint):
    with ControlServer(endpoint) as control, connect_raw(endpoint) as dealer:
        dealer.send(ControlQuestion(id=3, body=CONNECT))
        call = control.take(PATIENCE_S)
        sent = []
        send = control._router.send
        control._router.send = lambda *words: sent.append(1) or send(*words)
        control.tell(call, Progress(phase="acting", steps=4))
        assert sent == [1]
        answer, _ = dealer.receive(deadline())
    assert (answer.id, answer.body) == (3, Progress(phase="acting", steps=4))


def test_a_deadline_that_passed_at_the_worker_is_told_and_not_taken_for_our_own(endpoint, play):
    class Late(ToyPolicy):
        def predict(self, observation, *, episode=None):
            raise DeadlineExceeded("the worker gave no chunk in 1.0 s")

    with (
        ServedSimulator(
            endpoint,
            open_platform=lambda: ToyPlatform(ToyOptions()),
            connect=lambda wanted, platform: Late(),
        ),
        SimClient(endpoint, watch=nobody_died) as client,
    ):
        client.wait_ready(timeout_s=PATIENCE_S)
        client.connect_worker(CONNECT, timeout_s=PATIENCE_S)
        with pytest.raises(DeadlineExceeded, match="the worker gave no chunk"):
            client.play(play, lambda _: None, **LIMITS)


def test_a_program_that_dies_is_noticed_while_an_episode_is_awaited(endpoint, play):
    def died():
        raise ProgramDied("simulator toy (process 1) has ended")

    options = ToyOptions(step_delay_s=0.05)
    with toy_simulator(endpoint, options), SimClient(endpoint, watch=nobody_died) as client:
        client.wait_ready(timeout_s=PATIENCE_S)
        client.connect_worker(CONNECT, timeout_s=PATIENCE_S)
        client._watch = died
        with pytest.raises(ProgramDied, match="has ended"):
            client.play(play, lambda _: None, **LIMITS)


def test_a_server_that_vanishes_is_an_error_and_no_endless_wait(endpoint):
    control = ControlServer(endpoint)
    with SimClient(endpoint, watch=nobody_died) as client:
        with control:
            assert client.poll_ready() is None
            assert client.phase == "starting"
        with pytest.raises(SimulatorError, match="stopped talking"):
            client.wait_ready(timeout_s=PATIENCE_S)


def test_death_is_awaited_but_not_for_ever():
    looks = []

    def died_later():
        looks.append(1)
        if len(looks) == 3:
            raise ProgramDied("it has ended")

    with pytest.raises(ProgramDied):
        await_death(died_later, 5.0)
    await_death(nobody_died, 0.05)


def test_another_protocol_version_is_refused(endpoint):
    with ControlServer(endpoint), connect_raw(endpoint) as dealer:
        dealer.send(ControlQuestion(id=1, body=SimHello(protocol=99)))
        answer, _ = dealer.receive(deadline())
    assert answer.body.code == ProtocolMismatch.code
    assert "protocol 99" in answer.body.message


def test_a_message_that_cannot_be_read_is_answered_with_its_own_id(endpoint):
    with ControlServer(endpoint), connect_raw(endpoint) as dealer:
        dealer.send({"id": 5, "body": {"type": "sim.unheard"}})
        answer, _ = dealer.receive(deadline())
    assert answer.id == 5
    assert answer.body.code == ProtocolMismatch.code


def connect_raw(endpoint):
    decoder = msgspec.msgpack.Decoder(ControlAnswer)
    return Dealer.connect(endpoint, answers=decoder, timeout_s=PATIENCE_S)


def deadline():
    return time.monotonic() + PATIENCE_S


def test_nesting_without_end_is_answered_and_ends_nothing(endpoint):
    with ControlServer(endpoint), connect_raw(endpoint) as dealer:
        dealer._encoder = SimpleNamespace(encode=lambda raw: raw)
        dealer.send(b"\x82\xa2id\x07\xa4body" + b"\x91" * 100_000 + b"\x01")
        answer, _ = dealer.receive(deadline())
        assert answer.body.code == ProtocolMismatch.code
        dealer.send(msgspec.msgpack.encode(ControlQuestion(id=8, body=SimHello(protocol=1))))
        assert dealer.receive(deadline())[0].id == 8


def test_a_control_thread_that_dies_takes_the_simulator_with_it(endpoint, monkeypatch):
    control = ControlServer(endpoint)
    monkeypatch.setattr(control._router, "receive", lambda _: 1 / 0)
    with control:
        control._thread.join(PATIENCE_S)
        with pytest.raises(SimulatorError, match="the control thread has ended: ZeroDivision"):
            SimServer(lambda: ToyPlatform(ToyOptions()), control, lambda *_: ToyPolicy()).run()
