# SPDX-License-Identifier: Apache-2.0
"""A simulator that hangs or dies in an episode is replaced; the episode is what it would have been.

Real programs, real sockets, real memory; what hangs is the toy.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from rpent_box_toy.backend import BACKEND
from rpent_box_toy.running import (
    Recorder,
    boxes_in,
    kill_program,
    register_toy,
    short_folder,
    toy_config,
    wait_until_clean,
)

from rpent_box.errors import (
    DeadlineExceeded,
    PeerGone,
    ProgramDied,
    SimulatorError,
    SimulatorHangs,
)
from rpent_box.evaluate.run import run_episodes
from rpent_box.evaluate.summary import RunSummary
from rpent_box.launch.marked import is_alive
from rpent_box.launch.process import ProcessLauncher
from rpent_box.launch.records import read_records
from rpent_box.launch.standalone import standalone_worker
from rpent_box.sim.manifest import read_manifest
from rpent_box.sim.results import read_results
from rpent_box.transport.paths import GRANTS_ROOT, box_of_endpoint
from rpent_box.worker.needs import Needs

STALL_S = 4.0
"""A toy needs milliseconds for what is silent; the rest is for a machine where much else runs."""
NOISE = ("--noise", "0.3")


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    register_toy(monkeypatch)


@pytest.fixture
def folder():
    with short_folder() as made:
        yield made


def only_run(folder):
    (run_dir,) = (folder / "runs").iterdir()
    return run_dir


def breaking(folder, how, *, times=1, at_step=4, at_init_state=1, **changes):
    """Return a run of two episodes, whose second meets a simulator that breaks."""
    words = ("--breaks", how, "--breaks-file", str(folder / "breaks"))
    words += ("--breaks-times", str(times), "--breaks-at-step", str(at_step))
    words += ("--breaks-at-init-state", str(at_init_state))
    settings = {"stall_timeout_s": STALL_S, "backend_arguments": NOISE, **changes}
    return toy_config(folder, platform_arguments=words, **settings)


def times_broken(folder):
    path = folder / "breaks"
    return len(path.read_text().splitlines()) if path.exists() else 0


def fingerprints(summary: RunSummary):
    return [
        (row.init_state, row.success, row.steps, row.actions_sha256, row.first_frames_sha256)
        for row in summary.episodes
    ]


class BoxSeen(Recorder):
    """Remembers the box, and what is in the worker's room when the replacement acts."""

    def __init__(self, folder):
        super().__init__()
        self.box = None
        self.rings: list[str] = []
        self._folder = folder

    def on_progress(self, episode, progress):
        super().on_progress(episode, progress)
        (self.box,) = boxes_in(self._folder)
        if self.restarts and progress.phase == "acting":
            self.rings = os.listdir(GRANTS_ROOT / self.box)


@pytest.fixture(scope="module")
def undisturbed():
    """Return the fingerprints of the two episodes as they are when nothing breaks."""
    with pytest.MonkeyPatch.context() as patch, short_folder() as folder:
        register_toy(patch)
        return fingerprints(run_episodes(toy_config(folder, backend_arguments=NOISE), Recorder()))


@pytest.mark.parametrize(
    ("how", "phase"),
    [
        ("hang_in_reset", "resetting"),
        ("hang_in_apply", "acting"),
        ("native_in_apply", "acting"),
        ("spin_in_apply", "acting"),
        ("stop_in_apply", "acting"),
    ],
)
def test_a_simulator_that_hangs_once_costs_time_and_nothing_else(folder, undisturbed, how, phase):
    recorder = BoxSeen(folder)
    summary = run_episodes(breaking(folder, how), recorder)
    run_dir = Path(summary.run_dir)

    assert times_broken(folder) == 1
    assert fingerprints(summary) == undisturbed
    first, second = summary.episodes
    assert first.restarts == ()
    (restart,) = second.restarts
    assert (restart.why, restart.phase, restart.log) == ("hung", phase, "simulator.log")
    assert restart.step == (0 if phase == "resetting" else 4)
    assert STALL_S <= restart.silent_s < STALL_S + 30
    assert "no sign of progress" in restart.reason
    assert recorder.restarts == [(1, restart)]
    assert read_results(run_dir) == [first, second]
    assert read_manifest(run_dir).restarts == 1
    assert len(recorder.rings) == 1
    assert "solved" in (run_dir / "simulator.log").read_text()
    assert "solved" in (run_dir / "simulator.1.log").read_text()
    assert wait_until_clean(folder, recorder.box) == []
    (pid,) = (folder / "breaks").read_text().split()
    assert not is_alive(int(pid))


@pytest.mark.parametrize(
    ("how", "function"), [("hang_in_apply", "_be_lost"), ("native_in_apply", "_be_lost")]
)
def test_the_log_of_a_hung_simulator_says_where_it_stood(folder, how, function):
    run_episodes(breaking(folder, how, episodes=1, at_init_state=0), Recorder())
    log = (only_run(folder) / "simulator.log").read_text()
    stacks = log[log.index("Timeout (") :]
    assert f"in {function}" in stacks
    assert "in play_episode" in stacks
    assert "Timeout (" not in (only_run(folder) / "simulator.1.log").read_text()


def test_one_that_hangs_each_time_is_begun_three_times_and_what_is_finished_is_kept(folder):
    recorder = BoxSeen(folder)
    config = breaking(folder, "hang_in_apply", times=0, episodes=3)
    with pytest.raises(SimulatorHangs, match=r"episode 1 \(init state 1\) was begun 3 times") as it:
        run_episodes(config, recorder)
    run_dir = only_run(folder)
    assert times_broken(folder) == 3
    assert len(recorder.restarts) == 2
    for number, log in enumerate(["simulator.log", "simulator.1.log", "simulator.2.log"], start=1):
        assert f"{number}. hung at: acting, step 4 (no sign of progress" in it.value.message
        assert f"): {log}" in it.value.message
        assert (run_dir / log).is_file()
    assert "_be_lost" in it.value.detail
    assert "--stall-timeout" in it.value.hint
    assert f"Kept: 1 finished episode, logs and run.json in {run_dir}" in it.value.hint
    assert [row.init_state for row in read_results(run_dir)] == [0]
    manifest = read_manifest(run_dir)
    assert (manifest.status, manifest.restarts) == ("failed", 2)
    assert "was begun 3 times" in manifest.error
    assert wait_until_clean(folder, recorder.box) == []


def test_one_that_dies_once_is_replaced_too(folder, undisturbed):
    summary = run_episodes(breaking(folder, "die_in_apply"), Recorder())
    assert fingerprints(summary) == undisturbed
    (restart,) = summary.episodes[1].restarts
    assert (restart.why, restart.phase, restart.step) == ("died", "acting", 4)
    assert "SIGSEGV" in restart.reason
    # A crash in native code leaves its Python stack in the log of that program.
    assert "_be_lost" in (Path(summary.run_dir) / "simulator.log").read_text()


def test_one_that_dies_each_time_is_named_with_its_last_words(folder):
    with pytest.raises(ProgramDied, match="was begun 3 times") as caught:
        run_episodes(breaking(folder, "die_in_apply", times=0), Recorder())
    assert times_broken(folder) == 3
    assert "3. died at: acting, step 4 (killed by SIGSEGV): simulator.2.log" in caught.value.message
    assert "simulator toy (process" in caught.value.message
    assert "simulator.2.log" in caught.value.hint
    assert "_be_lost" in caught.value.detail


class SpoilsTheNextStart(Recorder):
    """Kills the first simulator; until `mended`, others then die while they start."""

    def __init__(self, folder, *, mend_after):
        super().__init__()
        self.spoilt = folder / "spoilt"
        self._folder = folder
        self._mend_after = mend_after

    def on_progress(self, episode, progress):
        if progress.steps and not self.restarts and not self.spoilt.exists():
            self.spoilt.touch()
            kill_program(self._folder, "simulator")

    def on_restart(self, episode, restart):
        super().on_restart(episode, restart)
        if len(self.restarts) == self._mend_after:
            self.spoilt.unlink()


@pytest.mark.parametrize("mend_after", [2, 9])
def test_a_replacement_that_does_not_start_counts_as_an_attempt(folder, mend_after):
    recorder = SpoilsTheNextStart(folder, mend_after=mend_after)
    words = ("--breaks", "die_in_open", "--breaks-while", str(recorder.spoilt))
    # Slow enough to be asked how far it is.
    words += ("--step-delay-s", "0.05", "--open-delay-s", "1.5")
    config = toy_config(folder, platform_arguments=words, episodes=1)
    if mend_after == 2:
        (row,) = run_episodes(config, recorder).episodes
        assert [one.phase for one in row.restarts][1] == "importing the simulator"
    else:
        with pytest.raises(ProgramDied, match="was begun 3 times") as caught:
            run_episodes(config, recorder)
        assert "3. died at: importing the simulator, step 0" in caught.value.message
    assert [one.why for _, one in recorder.restarts] == ["died", "died"]


def test_the_first_start_of_a_run_is_not_tried_again(folder):
    recorder = Recorder()
    config = breaking(folder, "die_in_open", times=0, at_init_state=-1)
    with pytest.raises(ProgramDied, match="has ended: killed by SIGSEGV"):
        run_episodes(config, recorder)
    assert times_broken(folder) == 1
    assert recorder.restarts == []


def test_one_stopped_from_outside_is_killed_and_replaced(folder, undisturbed):
    stopped = []

    def stop(episode, progress):
        if episode == 1 and progress.steps and not stopped:
            stopped.append(kill_program(folder, "simulator", signal.SIGSTOP))

    # It may be stopped while it waits for the model, which is then given its time as well.
    words = ("--step-delay-s", "0.05")
    config = toy_config(
        folder,
        backend_arguments=NOISE,
        platform_arguments=words,
        stall_timeout_s=STALL_S,
        prediction_timeout_s=STALL_S,
    )
    summary = run_episodes(config, Recorder(stop))
    assert fingerprints(summary) == undisturbed
    assert [one.why for one in summary.episodes[1].restarts] == ["hung"]
    assert not is_alive(stopped[0])


def test_a_worker_that_hangs_is_not_the_simulators_fault(folder):
    recorder = Recorder()
    config = toy_config(
        folder,
        backend_arguments=("--misbehave", "hang", "--at-chunk", "1"),
        prediction_timeout_s=2 * STALL_S,
        stall_timeout_s=STALL_S,
    )
    with pytest.raises(DeadlineExceeded) as caught:
        run_episodes(config, recorder)
    assert not isinstance(caught.value, SimulatorHangs)
    assert recorder.restarts == []


def test_a_worker_that_dies_while_the_simulator_hangs_is_what_is_told(folder):
    recorder = Recorder()
    config = breaking(folder, "hang_in_apply", at_init_state=0, stall_timeout_s=600)

    def kill_the_worker(episode, progress):
        if progress.phase == "acting" and progress.steps == 4:
            time.sleep(0.3)
            kill_program(folder, "worker")

    recorder._act = kill_the_worker
    began = time.monotonic()
    with pytest.raises(ProgramDied, match=r"worker toy .* has ended: killed by SIGKILL"):
        run_episodes(config, recorder)
    assert time.monotonic() - began < 120
    assert recorder.restarts == []


def test_a_worker_that_dies_while_a_replacement_starts_is_what_is_told(folder):
    class EndsTheWorker(Recorder):
        def on_restart(self, episode, restart):
            super().on_restart(episode, restart)
            kill_program(folder, "worker")

    recorder = EndsTheWorker()
    with pytest.raises(ProgramDied, match=r"^worker toy .* has ended: killed by SIGKILL"):
        run_episodes(breaking(folder, "die_in_apply"), recorder)
    assert len(recorder.restarts) == 1


class InterruptsTheRestart(BoxSeen):
    """Presses Ctrl-C a moment after a restart has begun."""

    timer: threading.Timer | None = None

    def on_restart(self, episode, restart):
        super().on_restart(episode, restart)
        self.timer = threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT))
        self.timer.start()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        # Held up in ending the first one, which does not heed SIGTERM.
        pytest.param("native_in_apply", (), id="while one is ended"),
        pytest.param("die_in_apply", ("--open-delay-s", "3"), id="while another starts"),
    ],
)
def test_an_interrupted_restart_leaves_nothing_behind(folder, how, words):
    recorder = InterruptsTheRestart(folder)
    config = breaking(folder, how, at_init_state=0)
    config = replace(config, platform_arguments=(*config.platform_arguments, *words))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_episodes(config, recorder)
    finally:
        # Where it ended otherwise, and sooner, the interrupt must not end the tests themselves.
        if recorder.timer is not None:
            recorder.timer.cancel()
        signal.signal(signal.SIGINT, before)
    assert len(recorder.restarts) == 1
    manifest = read_manifest(only_run(folder))
    assert (manifest.status, manifest.error) == ("failed", "stopped by SIGINT")
    assert wait_until_clean(folder, recorder.box) == []


def test_nothing_of_a_lost_attempt_is_among_the_files_of_the_next(folder):
    class WritesToTheLast(Recorder):
        """Stands for a simulator that is not quite as hung as it was taken for."""

        def on_restart(self, episode, restart):
            super().on_restart(episode, restart)
            for name in (".episode.mp4.4711.partial", "episode.mp4", "futures.npz"):
                (only_run(folder) / "episode-001" / name).write_text("lost")

    (_, row) = run_episodes(breaking(folder, "die_in_apply"), WritesToTheLast()).episodes
    assert len(row.restarts) == 1
    left = {path.name for path in (only_run(folder) / "episode-001").iterdir()}
    assert left == {"actions.npy"}


def test_what_a_simulator_says_itself_is_never_tried_again(folder):
    recorder = Recorder()
    with pytest.raises(SimulatorError, match="the toy broke at reset"):
        run_episodes(toy_config(folder, platform_arguments=("--breaks", "reset")), recorder)
    assert recorder.restarts == []


def test_one_that_goes_on_but_too_slowly_is_not_taken_for_hung(folder):
    recorder = Recorder()
    config = toy_config(
        folder,
        suite="toy_hard",
        platform_arguments=("--step-delay-s", "0.5"),
        stall_timeout_s=30,
        episode_timeout_s=5,
    )
    with pytest.raises(DeadlineExceeded, match="goes on, but did not end within 5 s") as caught:
        run_episodes(config, recorder)
    assert "--episode-timeout" in caught.value.hint
    assert recorder.restarts == []


def borrowed(folder):
    """Serve the toy as somebody else's worker."""
    return standalone_worker(
        BACKEND,
        ProcessLauncher(),
        needs=Needs(device="cpu"),
        checkpoint=None,
        platform="toy",
        options=NOISE,
        python=sys.executable,
        root=None,
        cuda_device=None,
        threads=1,
        log=str(folder / "borrowed.log"),
        image="",
        start_timeout_s=120,
        say=lambda _: None,
        runtime_dir=folder / "a",
    )


def test_a_borrowed_worker_stays_and_serves_the_replacement(folder, undisturbed):
    with borrowed(folder) as worker:
        grants = GRANTS_ROOT / box_of_endpoint(worker.endpoint)
        config = breaking(
            folder, "native_in_apply", backend_arguments=(), python=None, endpoint=worker.endpoint
        )
        summary = run_episodes(config, Recorder())
        worker.watch()
        assert os.listdir(grants) == []
        # It looks for clients that have gone once a second.
        deadline = time.monotonic() + 10
        while "is gone" not in (folder / "borrowed.log").read_text():
            assert time.monotonic() < deadline, "it has not seen the first simulator go"
            time.sleep(0.1)
    assert fingerprints(summary) == undisturbed
    assert len(summary.episodes[1].restarts) == 1


def test_a_borrowed_worker_that_has_gone_too_is_told_and_nothing_is_tried_again(folder):
    class EndsTheWorker(Recorder):
        def on_restart(self, episode, restart):
            super().on_restart(episode, restart)
            os.kill(pid, signal.SIGKILL)

    recorder = EndsTheWorker()
    with borrowed(folder) as worker:
        room = folder / "a" / box_of_endpoint(worker.endpoint)
        (record,) = read_records(room / "programs.json").programs
        pid = int(record.identifier)
        config = breaking(
            folder, "hang_in_apply", backend_arguments=(), python=None, endpoint=worker.endpoint
        )
        with pytest.raises(PeerGone):
            run_episodes(config, recorder)
    assert len(recorder.restarts) == 1
