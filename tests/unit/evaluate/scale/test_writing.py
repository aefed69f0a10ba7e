# SPDX-License-Identifier: Apache-2.0
"""The thread that writes, with an executor that tells what a test wants."""

import threading
import time

import pytest
from eval_record_parts import CHECKPOINT, IMAGES, JOBS, SIMULATOR, WORKER, begun, played
from msgspec import Struct
from msgspec.structs import replace
from rpent_box_toy.evaluating import EvalRecorder

from rpent_box.contracts.control_messages import Progress, Restart
from rpent_box.contracts.messages import Figures
from rpent_box.errors import (
    BadCheckpoint,
    ContractError,
    OutputError,
    PredictionFailed,
    ProgramDied,
)
from rpent_box.evaluate.scale import writing
from rpent_box.evaluate.scale.events import (
    Envs,
    Failed,
    Finished,
    Known,
    Moved,
    Phase,
    PlaceTold,
    Restarted,
    WorkerLost,
    WorkerTold,
)
from rpent_box.evaluate.scale.manifest import Place
from rpent_box.evaluate.scale.schedule import Schedule
from rpent_box.evaluate.scale.writing import Writing
from rpent_box.sim.manifest import host_facts
from rpent_box.sim.platform import Suite
from rpent_box.sim.results import read_results

RESTART = Restart(
    why="died", reason="SIGSEGV", phase="acting", step=3, silent_s=0.1, at="now", log="a.log"
)


class Checked(Struct):
    """What the thread that writes looks at of a checked evaluation."""

    suites: tuple[Suite, ...]


CHECKED = Checked(suites=(Suite(name="toy_easy", tasks=("a",), max_steps=9, init_states=3),))


class Told:
    """An executor that tells some events, and then ends, raises, or waits to be stopped."""

    name = "local"

    def __init__(self, *events, error=None, waits=False):
        self.events, self.error, self.waits = events, error, waits
        self.thread = None
        self.was_stopped = False

    def play(self, schedule, tell, stop):
        self.thread = threading.current_thread()
        for event in self.events:
            tell(event)
        if self.waits:
            self.was_stopped = stop.wait(20)
        if self.error is not None:
            raise self.error


@pytest.fixture
def record(tmp_path):
    with begun(tmp_path) as made:
        yield made


def write(record, executor, watcher=None):
    schedule = Schedule(record.left)
    watcher = EvalRecorder() if watcher is None else watcher
    Writing(record, CHECKED, schedule, watcher).play(executor)
    return schedule, watcher


def finished(job, **changes):
    return Finished(simulator="3", job=job, played=played(job), **changes)


def failed(job):
    return Failed(simulator="3", job=job, code="prediction_failed", message="no", hint="look")


def test_all_that_is_told_is_passed_on_from_the_thread_that_called(record):
    threads = set()
    watcher = EvalRecorder(on_episode=lambda _row: threads.add(threading.current_thread()))
    job = JOBS[0]
    schedule, _ = write(
        record,
        Told(
            Phase(component="worker", text="loading"),
            Envs(place="", count=2, why="asked for"),
            Moved(simulator="3", job=job, progress=Progress(phase="acting")),
            Restarted(simulator="3", job=job, restart=RESTART),
            WorkerTold(place="", figures=Figures(served=3)),
            WorkerLost(place="", reason="it died"),
            PlaceTold(place=Place(name="", host=host_facts(), envs=2)),
            finished(job),
            failed(JOBS[1]),
        ),
        watcher,
    )
    assert threads == {threading.current_thread()}
    assert watcher.phases == [("worker", "loading")]
    assert watcher.envs == [(2, "asked for")]
    assert watcher.moves == 1
    assert watcher.restarts == [("3", job, RESTART)]
    assert watcher.figures == [Figures(served=3)]
    assert watcher.workers_lost == ["it died"]
    assert [row.simulator for row in watcher.rows] == ["3"]
    assert [(one.episode, one.message) for one in watcher.failed] == [(1, "no")]
    assert schedule.unfinished == JOBS[2:]
    (session,) = record.manifest.sessions
    assert session.start_s > 0
    assert [place.envs for place in session.places] == [2]
    assert record.manifest.restarts == 1


def test_an_episode_that_was_too_short_to_be_seen_moving_ends_the_start(record):
    write(record, Told(finished(JOBS[0])))
    (session,) = record.manifest.sessions
    assert session.start_s > 0


def test_a_row_is_on_the_disk_before_anybody_is_told(record):
    seen = []
    watcher = EvalRecorder(on_episode=lambda _row: seen.append(len(read_results(record.run_dir))))
    write(record, Told(finished(JOBS[0]), finished(JOBS[1])), watcher)
    assert seen == [1, 2]


def test_a_result_that_comes_twice_counts_once(record):
    _, watcher = write(record, Told(finished(JOBS[0]), finished(JOBS[0]), failed(JOBS[0])))
    assert len(watcher.rows) == len(read_results(record.run_dir)) == 1
    assert watcher.failed == []


def test_files_from_another_machine_lie_in_the_episodes_folder_and_nowhere_else(record):
    files = {"actions.npy": b"1234", "../../outside": b"no"}
    write(record, Told(finished(JOBS[2], files=files)))
    folder = record.run_dir / "episode-002"
    assert {path.name for path in folder.iterdir()} == {"actions.npy", "outside"}
    assert (folder / "actions.npy").read_bytes() == b"1234"


def test_what_it_is_played_with_is_written_down_and_must_stay(record):
    known = Known(
        place="", simulator=SIMULATOR, worker=WORKER, images=IMAGES, checkpoint=CHECKPOINT
    )
    write(record, Told(known))
    assert record.manifest.images == IMAGES
    assert record.manifest.checkpoint == CHECKPOINT
    other = replace(known, place="node-1", simulator=replace(SIMULATOR, renderer="egl"))
    with pytest.raises(ContractError, match="simulator.renderer: osmesa → egl"):
        write(record, Told(other, waits=True))


def test_a_borrowed_worker_for_other_suites_is_refused(record):
    files = replace(CHECKPOINT, suites=("toy_other",))
    worker = replace(WORKER, meta=replace(WORKER.meta, checkpoint_files=files))
    executor = Told(Known(place="", simulator=SIMULATOR, worker=worker), waits=True)
    with pytest.raises(BadCheckpoint, match="toy_other"):
        write(record, executor)
    assert executor.was_stopped


def test_what_ends_the_executor_is_raised_once_all_is_written(record):
    executor = Told(finished(JOBS[0]), error=ProgramDied("worker toy has ended"))
    with pytest.raises(ProgramDied, match="worker toy has ended"):
        write(record, executor)
    assert len(read_results(record.run_dir)) == 1


def test_failures_in_a_row_stop_the_executor_and_a_success_begins_the_row_anew(record, monkeypatch):
    monkeypatch.setattr(writing, "FAILURES_IN_A_ROW", 2)
    write(record, Told(failed(JOBS[0]), finished(JOBS[1]), failed(JOBS[2])))
    executor = Told(failed(JOBS[3]), failed(JOBS[4]), finished(JOBS[5]), waits=True)
    with pytest.raises(PredictionFailed, match="2 episodes in a row ended in an error.*: no") as it:
        write(record, executor)
    assert it.value.hint == "look"
    assert executor.was_stopped
    # It was finished before all stopped, so it is kept.
    assert [row.episode for row in read_results(record.run_dir)] == [1, 5]


def test_what_costs_each_simulator_one_episode_at_once_does_not_end_it(record, monkeypatch):
    monkeypatch.setattr(writing, "FAILURES_IN_A_ROW", 2)
    five = Envs(place="", count=5, why="asked for")
    write(record, Told(five, *[failed(job) for job in JOBS[:9]]))
    executor = Told(five, *[failed(job) for job in JOBS[:10]], waits=True)
    with pytest.raises(PredictionFailed, match="10 episodes in a row"):
        write(record, executor)


def test_who_interrupts_twice_loses_nothing_that_is_finished(record, monkeypatch):
    def interrupt(_row):
        raise KeyboardInterrupt

    def interrupt_again(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Writing, "_end", interrupt_again)
    executor = Told(finished(JOBS[0]), finished(JOBS[1]))
    with pytest.raises(KeyboardInterrupt):
        write(record, executor, EvalRecorder(on_episode=interrupt))
    assert len(read_results(record.run_dir)) == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_an_interrupt_stops_the_executor_and_keeps_what_it_finished(record, error):
    def interrupt(_row):
        raise error

    executor = Told(finished(JOBS[0]), finished(JOBS[1]), waits=True)
    watcher = EvalRecorder(on_episode=interrupt)
    began = time.monotonic()
    with pytest.raises(error):
        write(record, executor, watcher)
    assert time.monotonic() - began < 5
    assert executor.was_stopped
    assert not executor.thread.is_alive()
    assert len(read_results(record.run_dir)) == 2


def test_a_full_disk_stops_the_executor(record, monkeypatch):
    def full(*_words, **_named):
        raise OutputError("the disk is full")

    monkeypatch.setattr(record, "add", full)
    executor = Told(finished(JOBS[0]), finished(JOBS[1]), waits=True)
    with pytest.raises(OutputError, match="the disk is full"):
        write(record, executor)
    assert executor.was_stopped
