# SPDX-License-Identifier: Apache-2.0
"""What an evaluation was not begun with leaves no result in it, however it ends."""

import pytest
from eval_record_parts import JOBS, SIMULATOR, WORKER, begun, played
from msgspec import Struct
from msgspec.structs import replace

from rpent_box.errors import ContractError
from rpent_box.evaluate.scale.events import Finished, Known, Phase
from rpent_box.evaluate.scale.plan import key_of
from rpent_box.evaluate.scale.schedule import Schedule
from rpent_box.evaluate.scale.watcher import SilentEvalWatcher
from rpent_box.evaluate.scale.writing import Writing
from rpent_box.sim.platform import Suite
from rpent_box.sim.results import read_results

OTHER = replace(SIMULATOR, versions={"mujoco": "3.4.0"})


class Checked(Struct):
    """What the thread that writes looks at of a checked evaluation."""

    suites: tuple[Suite, ...] = ()


class Told:
    """An executor that tells some events and waits to be stopped."""

    name = "local"

    def __init__(self, *events):
        self._events = events

    def play(self, schedule, tell, stop):
        for event in self._events:
            tell(event)
        assert stop.wait(20)


class Interrupting(SilentEvalWatcher):
    """Ends everything as soon as a phase is told, as Ctrl-C does."""

    def on_phase(self, component, text):
        raise KeyboardInterrupt


def known(place, simulator):
    return Known(place=place, simulator=simulator, worker=WORKER)


def finished(job):
    return Finished(simulator="0", job=job, played=played(job))


def write(record, *events):
    Writing(record, Checked(), Schedule(record.left), Interrupting()).play(Told(*events))


@pytest.fixture
def record(tmp_path):
    with begun(tmp_path) as made:
        yield made


def test_what_another_simulator_finished_is_not_kept(record):
    with pytest.raises(ContractError, match=r"simulator.versions.mujoco: 3.3.1 → 3.4.0"):
        write(
            record,
            known("node-0", SIMULATOR),
            finished(JOBS[0]),
            known("node-1", OTHER),
            finished(JOBS[1]),
        )
    assert [key_of(row) for row in read_results(record.run_dir)] == [JOBS[0].key]


@pytest.mark.parametrize(("simulator", "kept"), [(SIMULATOR, JOBS[:2]), (OTHER, JOBS[:1])])
def test_nor_is_it_when_somebody_stops_all_before_it_was_looked_at(record, simulator, kept):
    record.note(simulator=SIMULATOR, worker=WORKER)
    with pytest.raises(KeyboardInterrupt):
        write(
            record,
            Phase(component="worker", text="ready"),
            finished(JOBS[0]),
            known("", simulator),
            finished(JOBS[1]),
        )
    assert [key_of(row) for row in read_results(record.run_dir)] == [job.key for job in kept]
