# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
import sys
import threading
from collections.abc import Sequence

import msgspec
import pytest
from live_story import (
    Clock,
    acting,
    begun,
    failure,
    figures,
    plan,
    restart,
    row,
)

from rpent_box.contracts.control_messages import Progress
from rpent_box.contracts.messages import Payload, SlotRef, TensorRef
from rpent_box.evaluate.scale.plan import key_of
from rpent_box.evaluate.scale.summary import Score, summarize
from rpent_box.evaluate.scale.watcher import EvalWatcher
from rpent_box.evaluate.statistics import wilson_interval
from rpent_box.live.picture import Picture, Task
from rpent_box.live.state import LiveState

SEEN = Payload(
    slot=SlotRef(segment="/rpent-box.0123abcd.sim-0", slot=0, sequence=4),
    tensors=(
        TensorRef(name="primary", dtype="uint8", shape=(4, 4, 3)),
        TensorRef(name="wrist", dtype="uint8", shape=(4, 4, 3), offset=64),
    ),
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(clock: Clock) -> LiveState:
    return LiveState(clock=clock)


def test_a_state_is_a_watcher_of_evaluations(state: LiveState) -> None:
    watcher: EvalWatcher = state
    for name in EvalWatcher.__dict__:
        if name.startswith("on_"):
            assert callable(getattr(watcher, name))


def test_before_anything_is_known_there_is_a_picture_all_the_same(state: LiveState) -> None:
    picture = state.picture()
    assert (picture.phase, picture.episodes, picture.eta_s) == ("starting", 0, None)
    assert (picture.low, picture.high) == (0.0, 1.0)


def test_episodes_are_counted_by_task_with_their_interval(state: LiveState) -> None:
    begin = begun(plan(tasks=2, episodes=3))
    state.on_begin(begin)
    for job, success in zip(begin.jobs, (True, True, False, True), strict=False):
        state.on_progress("0", job, acting())
        state.on_episode(row(job, success=success))
    state.on_failure(failure(begin.jobs[4]))
    picture = state.picture()
    first, second = picture.tasks
    assert (first.name, first.episodes, first.successes, first.failures) == (
        *("put_the_0_away", 3, 2, 1),
    )
    assert (first.low, first.high) == wilson_interval(2, 3)
    assert first.steps == 20 + 20 + 40
    assert (second.successes, second.failures, second.errors) == (1, 0, 1)
    assert (picture.done, picture.successes, picture.errors) == (4, 3, 1)
    assert (picture.low, picture.high) == wilson_interval(3, 4)
    assert picture.stages_s == {
        "simulate": 4.0,
        "render": 12.0,
        "infer": 2.0,
        "queue": 1.0,
        "transport": 1.0,
    }
    assert sum(picture.episode_s["toy_easy"].counts) == 4
    assert picture.error_codes == {"simulator": 1}


@pytest.mark.parametrize("seed", range(5))
def test_its_numbers_are_those_of_the_summary_of_the_same_evaluation(
    state: LiveState, clock: Clock, seed: int
) -> None:
    """Whatever happens in which order: errors, restarts, lost workers, a second sitting."""
    chance = random.Random(seed)
    begin = begun(plan(tasks=4, episodes=6, suites=("toy_easy", "toy_hard")), played=seed * 4)
    state.on_begin(begin)
    rows, failed = list(begin.rows), []
    left = list(begin.jobs[len(rows) :])
    chance.shuffle(left)
    while left:
        name, job = str(chance.randrange(3)), left.pop()
        state.on_progress(name, job, acting())
        clock.now += 1.0
        match chance.randrange(8):
            case 0:
                state.on_restart(name, job, restart("died"))
                left.append(job)
            case 1:
                state.on_worker_lost("", "it died")
                left.append(job)
            case 2:
                failed.append(key_of(job))
                state.on_failure(failure(job, simulator=name))
            case _:
                wall_s, success = chance.uniform(1.0, 9.0), chance.random() < 0.6
                rows.append(row(job, success=success, simulator=name, wall_s=wall_s))
                state.on_episode(rows[-1])
        picture = state.picture()
        summary = summarize(begin.manifest, begin.run_dir, rows, failed)
        _require_equal(picture, picture.tasks, summary.total)
        for suite in summary.suites:
            tasks = [task for task in picture.tasks if task.suite == suite.suite]
            assert sum(task.successes for task in tasks) == suite.successes
            assert sum(picture.episode_s[suite.suite].counts if suite.done else ()) == suite.done
        for task, score in zip(picture.tasks, summary.tasks, strict=True):
            assert (task.suite, task.task, task.name) == (score.suite, score.task, score.name)
            _require_equal(task, [task], score)
        assert picture.stages_s == pytest.approx(summary.stages_s)
        assert picture.predictions == sum(row.predictions for row in rows)


def _require_equal(shown: Picture | Task, tasks: Sequence[Task], score: Score) -> None:
    done = sum(task.successes + task.failures for task in tasks)
    assert (shown.episodes, done) == (score.episodes, score.done)
    assert (shown.successes, shown.errors) == (score.successes, score.failed)
    assert (shown.low, shown.high) == score.success_interval
    if score.mean_steps is not None:
        assert shown.steps / done == pytest.approx(score.mean_steps)


def test_earlier_sittings_count_for_the_result_and_not_for_the_pace(
    state: LiveState, clock: Clock
) -> None:
    begin = begun(plan(tasks=2, episodes=10), played=8)
    state.on_begin(begin)
    assert state.picture().per_minute_overall is None
    for job in begin.jobs[8:10]:
        state.on_progress("0", job, acting())
        clock.now += 30.0
        state.on_episode(row(job))
    picture = state.picture()
    assert (picture.done, picture.earlier) == (10, 8)
    assert picture.per_minute_overall == pytest.approx(2.0)


def test_the_pace_of_the_last_minutes_is_told_beside_that_of_all_time(
    state: LiveState, clock: Clock
) -> None:
    begin = begun(plan(tasks=1, episodes=200))
    state.on_begin(begin)
    left = []
    for number, job in enumerate(begin.jobs[:100]):
        state.on_progress("0", job, acting())
        clock.now += 60.0 if number < 20 else 6.0
        state.on_episode(row(job))
        left.append(state.picture().eta_s or 0.0)
    picture = state.picture()
    assert picture.per_minute == pytest.approx(10.0, rel=0.05)
    assert picture.per_minute_overall == pytest.approx(100 / (20 + 8))
    assert left[30] > left[60] > left[99] > 0


def test_a_simulator_is_where_it_last_said(state: LiveState, clock: Clock) -> None:
    begin = begun()
    state.on_begin(begin)
    state.on_envs("", 1, "asked for")
    state.on_progress("0", begin.jobs[1], Progress(phase="resetting", max_steps=40))
    (seat,) = state.picture().seats
    assert (seat.state, seat.phase, seat.episode, seat.view) == (
        "resetting",
        "resetting",
        1,
        "unknown",
    )
    state.on_progress("0", begin.jobs[1], acting(8, SEEN))
    clock.now += 3.0
    (seat,) = state.picture().seats
    assert (seat.state, seat.steps, seat.max_steps, seat.for_s) == ("acting", 8, 40, 3.0)
    assert (seat.view, seat.cameras) == ("shown", ("primary", "wrist"))
    state.on_progress("0", begin.jobs[1], Progress(phase="predicting", steps=16, max_steps=40))
    (seat,) = state.picture().seats
    assert (seat.state, seat.steps, seat.cameras) == ("waiting", 16, ("primary", "wrist"))
    state.on_progress("0", begin.jobs[1], Progress(phase="writing video", steps=100))
    (seat,) = state.picture().seats
    assert (seat.state, seat.steps) == ("video", 100)
    state.on_episode(row(begin.jobs[1]))
    (seat,) = state.picture().seats
    assert (seat.state, seat.episode, seat.played, seat.successes) == ("idle", None, 1, 1)


def test_frames_that_travel_over_a_network_have_no_view(state: LiveState) -> None:
    state.on_progress("node-1/0", begun().jobs[0], acting())
    assert state.picture().seats[0].view == "network"
    assert state.seen("node-1/0") is None


def test_a_view_that_failed_says_nothing_of_another_ring(state: LiveState) -> None:
    job = begun().jobs[0]
    state.on_progress("0", job, acting(seen=SEEN))
    state.note_view("0", "elsewhere")
    state.on_progress("0", job, acting(seen=SEEN))
    assert state.picture().seats[0].view == "elsewhere"
    state.on_restart("0", job, restart())
    # Somebody looked before the restart, and was told only afterwards that the ring is gone.
    state.note_view("0", "elsewhere")
    state.on_progress("0", job, acting(seen=SEEN))
    assert state.picture().seats[0].view == "shown"
    state.note_view("0", "elsewhere")
    other = SlotRef(segment="/rpent-box.0123abcd.sim-1", slot=0, sequence=2)
    state.on_progress("0", job, acting(seen=Payload(slot=other, tensors=SEEN.tensors)))
    assert state.picture().seats[0].view == "shown"


def test_only_what_can_be_a_picture_is_a_camera(state: LiveState) -> None:
    depth = TensorRef(name="depth", dtype="float32", shape=(4, 4, 3))
    mask = TensorRef(name="mask", dtype="uint8", shape=(4, 4))
    seen = Payload(slot=SEEN.slot, tensors=(depth, *SEEN.tensors, mask))
    state.on_progress("0", begun().jobs[0], acting(seen=seen))
    assert state.picture().seats[0].cameras == ("primary", "wrist")


def test_restarts_errors_and_lost_workers_are_told_and_bounded(state: LiveState) -> None:
    begin = begun()
    state.on_begin(begin)
    for name in ("0", "node-1/0"):
        state.on_progress(name, begin.jobs[0], acting(seen=SEEN))
    state.on_restart("0", begin.jobs[0], restart("hung"))
    state.on_worker_lost("node-1", "killed by SIGKILL")
    picture = state.picture()
    assert picture.restarts == {"hung": 1, "died": 0}
    assert [seat.state for seat in picture.seats] == ["replacing", "replacing"]
    assert [seat.restarts for seat in picture.seats] == [1, 0]
    assert [one.kind for one in picture.happened] == ["worker lost", "restart"]
    assert state.seen("0") is None
    for _ in range(1000):
        state.on_failure(failure(begin.jobs[1], code="made-up"))
    picture = state.picture()
    assert len(picture.happened) < 100
    assert picture.error_codes == {"error": 1000}, "only codes of ours may become labels"


def test_a_simulator_that_left_is_not_shown_and_its_episode_waits_again(state: LiveState) -> None:
    begin = begun()
    state.on_begin(begin)
    for name in ("0", "1"):
        state.on_progress(name, begin.jobs[0], acting())
    state.on_left("1")
    state.on_left("7")
    assert [seat.name for seat in state.picture().seats] == ["0"]


def test_a_machine_that_plays_no_more_has_no_simulators(state: LiveState) -> None:
    for name in ("0", "node-1/0", "node-1/1"):
        state.on_progress(name, begun().jobs[0], acting())
    state.on_envs("node-1", 0, "lost")
    picture = state.picture()
    assert [seat.name for seat in picture.seats] == ["0"]
    assert picture.machines[0].envs == 0


def test_simulators_are_in_their_natural_order(state: LiveState) -> None:
    for name in ("10", "node-2/1", "9", "node-10/0", "node-2/0"):
        state.on_progress(name, begun().jobs[0], acting())
    assert [seat.name for seat in state.picture().seats] == [
        *("9", "10", "node-2/0", "node-2/1", "node-10/0"),
    ]


def test_the_workers_share_is_of_the_last_half_minute(state: LiveState, clock: Clock) -> None:
    state.on_worker("", figures(100.0, busy_s=10.0))
    assert state.picture().machines[0].busy == pytest.approx(0.1)
    for second in range(2, 62, 2):
        clock.now += 2.0
        state.on_worker("", figures(100.0 + second, busy_s=10.0 + 0.8 * second))
    (machine,) = state.picture().machines
    assert machine.busy == pytest.approx(0.8)
    state.on_worker_lost("", "it died")
    assert state.picture().machines[0].busy is None
    state.on_worker("", figures(2.0, busy_s=1.0))
    (machine,) = state.picture().machines
    assert (machine.busy, machine.lost) == (pytest.approx(0.5), 1)


def test_an_evaluation_that_has_ended_stays_as_it_was(state: LiveState, clock: Clock) -> None:
    begin = begun()
    state.on_begin(begin)
    state.on_progress("0", begin.jobs[0], acting())
    clock.now += 10.0
    state.on_episode(row(begin.jobs[0]))
    state.end("incomplete")
    clock.now += 1000.0
    state.end()
    picture = state.picture()
    assert (picture.phase, picture.ended, picture.eta_s) == ("ended", "incomplete", None)
    assert picture.elapsed_s == pytest.approx(10.0)
    assert picture.per_minute_overall == pytest.approx(6.0)


def test_new_frames_are_told_outside_the_lock_and_only_to_who_looks(state: LiveState) -> None:
    told: list[tuple[str, Payload]] = []

    def look(simulator: str, payload: Payload) -> None:
        state.note_view(simulator, "elsewhere")
        told.append((simulator, payload))

    state.on_progress("0", begun().jobs[0], acting(seen=SEEN))
    state.look_on(look)
    state.on_progress("0", begun().jobs[0], acting(seen=SEEN))
    state.on_progress("0", begun().jobs[0], Progress(phase="predicting"))
    state.look_on(None)
    state.on_progress("0", begun().jobs[0], acting(seen=SEEN))
    assert told == [("0", SEEN)]
    assert state.seen("0") == SEEN
    assert state.picture().seats[0].view == "elsewhere"


def test_a_picture_survives_json(state: LiveState) -> None:
    begin = begun()
    state.on_begin(begin)
    state.on_progress("0", begin.jobs[0], acting(seen=SEEN))
    state.on_worker("", figures(10.0))
    state.on_episode(row(begin.jobs[0]))
    picture = state.picture()
    data = msgspec.json.encode(picture)
    assert b"\n" not in data
    assert msgspec.json.decode(data, type=Picture) == picture


def test_ten_times_the_episodes_take_no_more_room(clock: Clock) -> None:
    sizes = []
    for episodes in (1_000, 10_000):
        state = LiveState(clock=clock)
        begin = begun(plan(tasks=10, episodes=episodes // 10))
        state.on_begin(begin)
        for number, job in enumerate(begin.jobs):
            clock.now += 3.0
            state.on_progress(str(number % 16), job, acting())
            state.on_episode(row(job, simulator=str(number % 16), success=number % 3 > 0))
        state.on_worker("", figures(50.0))
        assert state.picture().done == episodes
        sizes.append(len(msgspec.json.encode(state.picture())))
        assert _size_of(state) < 400_000
    assert sizes[1] < 1.5 * sizes[0]


def test_names_that_nobody_expected_are_bounded_too(state: LiveState) -> None:
    for number in range(3000):
        state.on_phase(f"simulator {number}", "x" * 5000)
        state.on_envs(f"node-{number}", 1, "")
        state.on_progress(f"node-{number}/0", begun().jobs[0], acting())
    picture = state.picture()
    assert max(len(picture.components), len(picture.machines), len(picture.seats)) == 1024
    assert len(picture.components[0].text) <= 400


def test_it_may_be_looked_at_while_it_is_told(state: LiveState) -> None:
    begin = begun(plan(tasks=5, episodes=200))
    state.on_begin(begin)
    stop = threading.Event()
    wrong: list[object] = []

    def look() -> None:
        try:
            while not stop.is_set():
                picture = state.picture()
                if picture.done != sum(t.successes + t.failures for t in picture.tasks):
                    wrong.append(picture)
        except Exception as error:  # noqa: BLE001 - told to the test
            wrong.append(error)

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    chance = random.Random(1)
    for job in begin.jobs:
        name = str(chance.randrange(40))
        state.on_progress(name, job, acting())
        state.on_episode(row(job, simulator=name))
    stop.set()
    for looker in lookers:
        looker.join(10)
    assert wrong == []
    assert state.picture().done == 1000


def _size_of(value: object, seen: set[int] | None = None) -> int:
    """Return the bytes of `value` and of all that it holds."""
    seen = set() if seen is None else seen
    if id(value) in seen or callable(value):
        return 0
    seen.add(id(value))
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(_size_of(k, seen) + _size_of(v, seen) for k, v in value.items())
    if isinstance(value, list | tuple | set) or type(value).__name__ == "deque":
        return size + sum(_size_of(item, seen) for item in value)  # type: ignore[attr-defined]
    if isinstance(value, msgspec.Struct):
        return size + sum(_size_of(getattr(value, f), seen) for f in value.__struct_fields__)
    return size + _size_of(getattr(value, "__dict__", None), seen)
