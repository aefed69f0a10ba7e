# SPDX-License-Identifier: Apache-2.0
"""Whole evaluations of the toy with the process launcher: many simulators around one worker."""

import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from rpent_box_toy.backend import BACKEND
from rpent_box_toy.evaluating import EvalRecorder, eval_config, program_ids
from rpent_box_toy.running import (
    boxes_in,
    leftovers,
    register_toy,
    short_folder,
    toy_config,
)

from rpent_box.errors import (
    BadActions,
    BadOption,
    IncompatibleWorker,
    PeerGone,
    ProgramDied,
    SimulatorError,
    WorkerFailed,
)
from rpent_box.evaluate.run import SilentWatcher, run_episodes
from rpent_box.evaluate.scale import local, writing
from rpent_box.evaluate.scale.evaluation import resume_evaluation, run_evaluation
from rpent_box.evaluate.scale.manifest import read_eval_manifest
from rpent_box.evaluate.scale.plan import key_of
from rpent_box.launch.process import ProcessLauncher
from rpent_box.launch.standalone import standalone_worker
from rpent_box.sim.results import read_results
from rpent_box.worker.needs import Needs

SLOW_STEPS = ("--step-delay-s", "0.02")
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


def prints(rows):
    return {key_of(row): (row.actions_sha256, row.first_frames_sha256, row.success) for row in rows}


def require_each_once(run_dir):
    keys = [key_of(row) for row in read_results(run_dir)]
    assert sorted(keys) == sorted(job.key for job in read_eval_manifest(run_dir).plan.jobs())


def test_every_episode_of_every_suite_is_played_once_and_as_in_a_run(folder):
    recorder = EvalRecorder()
    config = eval_config(
        folder,
        suites=("toy_easy", "toy_hard"),
        episodes=2,
        seeds=(7, 8),
        envs=3,
        backend_arguments=NOISE,
        platform_arguments=SLOW_STEPS,
    )
    summary = run_evaluation(config, recorder)

    run_dir = Path(summary.run_dir)
    require_each_once(run_dir)
    rows = read_results(run_dir)
    assert {row.simulator for row in rows} == {"0", "1", "2"}
    assert all((run_dir / f"episode-{row.episode:03d}" / "actions.npy").exists() for row in rows)
    assert (summary.status, summary.total.done, summary.total.failed) == ("complete", 12, 0)
    assert [(one.suite, one.done, one.successes) for one in summary.suites] == [
        ("toy_easy", 8, 8),
        ("toy_hard", 4, 0),
    ]
    assert [len(recorder.rows), len(recorder.begun.jobs)] == [12, 12]
    assert recorder.envs == [(3, "asked for")]
    (session,) = read_eval_manifest(run_dir).sessions
    (place,) = session.places
    assert place.worker.served == sum(row.predictions for row in rows)
    assert {"starting", "resetting", "simulate", "predicting", "idle"} <= set(place.simulators_s)
    assert (place.envs, place.worker_starts, session.episodes) == (3, 1, 12)
    assert {path.name for path in run_dir.glob("*.log")} == {
        "worker.log",
        *(f"simulator-{number}.log" for number in range(3)),
    }
    assert boxes_in(folder) == []

    alone = run_episodes(
        toy_config(folder, suite="toy_easy", task=1, seed=8, backend_arguments=NOISE),
        SilentWatcher(),
    )
    assert prints(alone.episodes).items() <= prints(rows).items()
    assert sorted(recorder.left) == ["0", "1", "2"]


def test_simulators_that_die_are_replaced_and_each_row_says_so(folder):
    crashes = folder / "crashes"
    config = eval_config(
        folder,
        episodes=6,
        platform_arguments=(
            *SLOW_STEPS,
            *("--breaks", "die_in_apply", "--breaks-file", str(crashes), "--breaks-times", "3"),
            *("--breaks-at-init-state", "4"),
        ),
    )
    recorder = EvalRecorder()
    summary = run_evaluation(config, recorder)
    require_each_once(Path(summary.run_dir))
    rows = read_results(Path(summary.run_dir))
    assert summary.status == "complete"
    assert sum(len(row.restarts) for row in rows) == summary.restarts == 3
    assert {row.init_state for row in rows if row.restarts} == {4}
    for row in rows:
        for restart in row.restarts:
            assert "SIGSEGV" in restart.reason
            assert (Path(summary.run_dir) / restart.log).is_file()
    assert len(recorder.restarts) == 3


def test_an_episode_that_always_ends_in_an_error_fails_alone_and_a_resume_tries_it_again(folder):
    switch = folder / "switch"
    switch.touch()
    config = eval_config(
        folder,
        platform_arguments=(
            *("--breaks", "die_in_apply", "--breaks-at-init-state", "1"),
            *("--breaks-while", str(switch)),
        ),
    )
    recorder = EvalRecorder()
    first = run_evaluation(config, recorder)
    run_dir = Path(first.run_dir)
    assert (first.status, first.total.done, first.total.failed) == ("incomplete", 4, 2)
    assert {(one.init_state, one.code) for one in recorder.failed} == {(1, "program_died")}
    assert all("was begun 3 times" in one.message for one in recorder.failed)

    switch.unlink()
    again = EvalRecorder()
    second = resume_evaluation(run_dir, read_eval_manifest(run_dir).config, again)
    assert [len(again.begun.rows), len(again.rows)] == [4, 2]
    assert (second.status, second.total.done, second.total.failed) == ("complete", 6, 0)
    assert second.sittings == 2
    assert (run_dir / "session-1" / "worker.log").is_file()
    require_each_once(run_dir)

    third = EvalRecorder()
    assert resume_evaluation(run_dir, read_eval_manifest(run_dir).config, third).sittings == 2
    assert third.rows == []


def test_a_model_that_raises_in_one_scene_costs_that_episode(folder):
    config = eval_config(folder, backend_arguments=("--misbehave", "raise", "--at-init-state", "2"))
    recorder = EvalRecorder()
    summary = run_evaluation(config, recorder)
    assert (summary.total.done, summary.total.failed) == (4, 2)
    assert {(one.init_state, one.code) for one in recorder.failed} == {(2, "prediction_failed")}


def test_failures_in_a_row_end_it_with_the_last_ones_words(folder, monkeypatch):
    monkeypatch.setattr(writing, "FAILURES_IN_A_ROW", 2)
    config = eval_config(folder, backend_arguments=("--misbehave", "nan"), envs=1)
    with pytest.raises(BadActions, match="2 episodes in a row ended in an error") as caught:
        run_evaluation(replace(config, first_init_state=0, episodes=1, seeds=(1, 2, 3)), SILENT)
    assert f"rpent-box eval --resume {only_run(folder)}" in caught.value.hint
    assert read_eval_manifest(only_run(folder)).status == "failed"
    assert boxes_in(folder) == []


SILENT = EvalRecorder()


def test_a_killed_worker_is_replaced_with_its_box_and_nothing_is_lost(folder):
    boxes = []

    def kill(row):
        if len(recorder.rows) == 2:
            boxes.extend(boxes_in(folder))
            os.kill(program_ids(folder, "worker")[-1], signal.SIGKILL)

    recorder = EvalRecorder(on_episode=kill)
    config = eval_config(folder, backend_arguments=NOISE, platform_arguments=SLOW_STEPS)
    summary = run_evaluation(config, recorder)
    run_dir = Path(summary.run_dir)
    require_each_once(run_dir)
    (reason,) = recorder.workers_lost
    assert "SIGKILL" in reason
    assert (summary.status, summary.worker_starts, summary.total.failed) == ("complete", 2, 0)
    assert (run_dir / "worker.1.log").is_file()
    assert (run_dir / "simulator-1.1.log").is_file()
    assert leftovers(folder, *boxes) == []
    calm = run_evaluation(replace(config, output_dir=str(folder / "calm")), EvalRecorder())
    assert prints(read_results(run_dir)) == prints(read_results(Path(calm.run_dir)))


def test_a_worker_that_is_stopped_is_replaced(folder):
    def stop(row):
        if len(recorder.rows) == 2:
            os.kill(program_ids(folder, "worker")[-1], signal.SIGSTOP)

    recorder = EvalRecorder(on_episode=stop)
    config = eval_config(folder, prediction_timeout_s=2.0, platform_arguments=SLOW_STEPS)
    summary = run_evaluation(config, recorder)
    require_each_once(Path(summary.run_dir))
    assert (summary.status, summary.worker_starts, summary.total.failed) == ("complete", 2, 0)
    assert len(recorder.workers_lost) == 1
    assert boxes_in(folder) == []


def test_a_first_worker_that_something_kills_while_it_loads_is_started_once_more(folder):
    class Killing(EvalRecorder):
        killed = False

        def on_phase(self, component, text):
            super().on_phase(component, text)
            if component == "worker" and "loading" in text and not self.killed:
                self.killed = True
                os.kill(program_ids(folder, "worker")[0], signal.SIGKILL)

    recorder = Killing()
    config = eval_config(folder, backend_arguments=("--load-delay-s", "1"), tasks=(0,))
    summary = run_evaluation(config, recorder)
    assert (summary.status, summary.worker_starts) == ("complete", 2)
    assert "SIGKILL" in recorder.workers_lost[0]
    require_each_once(Path(summary.run_dir))
    assert boxes_in(folder) == []


def test_workers_that_die_of_one_episode_end_it_with_their_last_lines_once_others_are_played(
    folder, monkeypatch
):
    monkeypatch.setattr(local, "WORKER_LOSSES", 2)
    config = eval_config(folder, backend_arguments=("--misbehave", "die"), envs=1, tasks=(0,))
    recorder = EvalRecorder()
    with pytest.raises(ProgramDied, match="2 workers in a row ended before an episode") as caught:
        run_evaluation(config, recorder)
    assert "ready" in caught.value.detail
    # The last is in the error. Of the first it was not known yet whether others would end so too.
    assert len(recorder.workers_lost) == 2
    run_dir = only_run(folder)
    asked = {job.key for job in read_eval_manifest(run_dir).plan.jobs()}
    (left,) = asked - {key_of(row) for row in read_results(run_dir)}
    assert left.init_state == 0
    assert boxes_in(folder) == []


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"backend_arguments": ("--misbehave", "load")}, WorkerFailed, "weights are torn"),
        ({"platform_arguments": ("--breaks", "open")}, SimulatorError, "the toy broke at open"),
        ({"backend_arguments": ("--mismatch", "control")}, IncompatibleWorker, "toy.other.v1"),
        ({"execute_steps": 99}, BadOption, "99 execute steps"),
    ],
)
def test_what_cannot_be_started_or_does_not_fit_ends_it_before_a_step(folder, changes, error, said):
    with pytest.raises(error, match=said):
        run_evaluation(eval_config(folder, **changes), EvalRecorder())
    assert read_results(only_run(folder)) == []
    assert boxes_in(folder) == []


def test_a_simulator_that_is_killed_while_it_starts_is_started_again(folder):
    crashes = folder / "crashes"
    config = eval_config(
        folder,
        platform_arguments=(
            *SLOW_STEPS,
            *("--breaks", "die_in_open", "--breaks-file", str(crashes), "--breaks-times", "2"),
        ),
    )
    recorder = EvalRecorder()
    summary = run_evaluation(config, recorder)
    assert summary.status == "complete"
    assert len(crashes.read_text().split()) == 2
    require_each_once(Path(summary.run_dir))


def test_an_evaluation_is_resumed_from_another_folder_than_it_was_begun_in(folder, monkeypatch):
    (folder / "weights").mkdir()
    (folder / "weights" / "toy.json").write_text("{}")
    monkeypatch.chdir(folder)
    config = eval_config(folder, checkpoint="weights", output_dir="runs", tasks=(0,))

    def interrupt(_row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_evaluation(config, EvalRecorder(on_episode=interrupt))
    moved = folder / "moved"
    only_run(folder).rename(moved)
    monkeypatch.chdir("/")
    summary = resume_evaluation(moved, read_eval_manifest(moved).config, EvalRecorder())
    assert summary.status == "complete"
    require_each_once(moved)
    assert len({row.run for row in read_results(moved)}) == 1


def test_an_interrupt_ends_everything_soon_and_keeps_what_is_finished(folder):
    boxes, at = [], []

    def interrupt(row):
        if len(recorder.rows) == 3:
            boxes.extend(boxes_in(folder))
            at.append(time.monotonic())
            raise KeyboardInterrupt

    recorder = EvalRecorder(on_episode=interrupt)
    config = eval_config(folder, envs=4, episodes=6, platform_arguments=SLOW_STEPS)
    with pytest.raises(KeyboardInterrupt):
        run_evaluation(config, recorder)
    assert time.monotonic() - at[0] < 6
    assert leftovers(folder, *boxes) == []
    run_dir = only_run(folder)
    manifest = read_eval_manifest(run_dir)
    assert (manifest.status, manifest.error) == ("failed", "stopped by SIGINT")
    assert len(read_results(run_dir)) >= 3
    resume_evaluation(run_dir, manifest.config, EvalRecorder())
    require_each_once(run_dir)


def test_a_simulator_that_hangs_is_replaced_while_others_play_on(folder):
    hangs = folder / "hangs"
    config = eval_config(
        folder,
        stall_timeout_s=3.0,
        prediction_timeout_s=20.0,
        platform_arguments=(
            *("--breaks", "stop_in_apply", "--breaks-file", str(hangs), "--breaks-times", "1"),
        ),
    )
    summary = run_evaluation(config, EvalRecorder())
    rows = read_results(Path(summary.run_dir))
    require_each_once(Path(summary.run_dir))
    assert [restart.why for row in rows for restart in row.restarts] == ["hung"]


@contextmanager
def serving(folder):
    """A worker of the toy in a box of its own, which is not the evaluation's to end."""
    with standalone_worker(
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
        say=lambda _phase: None,
        runtime_dir=folder / "lent",
    ) as worker:
        yield worker


def test_a_borrowed_worker_is_counted_from_now_on_and_its_end_is_an_error_to_resume_from(folder):
    with serving(folder) as worker:
        config = eval_config(folder, endpoint=worker.endpoint, python=None, episodes=1)
        first = run_evaluation(config, EvalRecorder())
        second = run_evaluation(config, EvalRecorder())
        worker.watch()
        for summary in (first, second):
            rows = read_results(Path(summary.run_dir))
            (place,) = read_eval_manifest(Path(summary.run_dir)).sessions[0].places
            assert place.worker.served == sum(row.predictions for row in rows)
            assert (place.worker_starts, summary.worker_starts) == (0, 0)

        def kill(_row):
            os.kill(int(worker.running.identifier), signal.SIGKILL)

        with pytest.raises(PeerGone) as caught:
            run_evaluation(
                replace(config, episodes=6, platform_arguments=SLOW_STEPS),
                EvalRecorder(on_episode=kill),
            )
    assert "rpent-box eval --resume" in caught.value.hint
    assert boxes_in(folder) == []


def test_more_simulators_come_while_they_mostly_wait_for_the_model(folder, monkeypatch):
    monkeypatch.setattr("rpent_box.evaluate.scale.crew.TAKE_STOCK_S", 0.2)
    monkeypatch.setattr("rpent_box.evaluate.scale.growth.WINDOW_S", 0.5)
    # Whatever else this machine is busy with.
    idle = lambda *_: int(8 * time.monotonic() * os.sysconf("SC_CLK_TCK"))  # noqa: E731
    monkeypatch.setattr("rpent_box.evaluate.scale.measuring._idle_ticks", idle)
    recorder = EvalRecorder()
    config = eval_config(
        folder,
        envs=None,
        episodes=6,
        seeds=tuple(range(4)),
        backend_arguments=("--infer-s", "0.02"),
        platform_arguments=("--step-delay-s", "0.01"),
    )
    summary = run_evaluation(config, recorder)
    require_each_once(Path(summary.run_dir))
    first, *later = recorder.envs
    assert "to begin with" in first[1]
    assert later
    assert later[0][0] > first[0]
    assert len({row.simulator for row in recorder.rows}) > first[0]
