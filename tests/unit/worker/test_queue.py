# SPDX-License-Identifier: Apache-2.0
import threading
import time

import numpy as np
import pytest
from fake_models import observation
from running_service import wait_until

from rpent_box.errors import WorkerBusy
from rpent_box.worker.backend import PredictionInput
from rpent_box.worker.gathering import FixedGathering
from rpent_box.worker.queue import LANE, WorkQueue
from rpent_box.worker.work import Errand, Prediction

FOR_EVER_S = 3600.0
"""Longer than a test may take: one that waits for it fails."""


def prediction(lane, number=0, *, deadline_s=60.0):
    now = time.monotonic()
    return Prediction(
        connection=lane.encode(),
        request_id=number,
        received=now,
        deadline=now + deadline_s,
        input=PredictionInput(observation=observation(), session=lane),
        recheck=lambda: None,
    )


def errand(lane, number=0):
    return Errand(connection=lane.encode(), request_id=number, run=lambda _: None)


def filled(*work, wait_s=0.0):
    queue = WorkQueue(FixedGathering(wait_s))
    for item in work:
        queue.put(item)
    return queue


def names(batch):
    return [f"{work.connection.decode()}{work.request_id}" for work in batch]


def take_all(queue, max_batch=1):
    taken = []
    while queue.counts()[0]:
        taken.append(names(queue.take(max_batch)))
    return taken


def test_lanes_are_served_in_turn_so_that_none_is_crowded_out():
    queue = filled(
        *(prediction("a", number) for number in range(3)), prediction("b"), prediction("c")
    )
    assert take_all(queue) == [["a0"], ["b0"], ["c0"], ["a1"], ["a2"]]


def test_a_batch_takes_one_from_each_lane():
    queue = filled(prediction("a", 0), prediction("a", 1), prediction("b", 0), prediction("c", 0))
    assert take_all(queue, max_batch=4) == [["a0", "b0", "c0"], ["a1"]]


def test_a_batch_is_no_larger_than_the_model_takes():
    queue = filled(*(prediction(lane) for lane in "abcde"))
    assert take_all(queue, max_batch=2) == [["a0", "b0"], ["c0", "d0"], ["e0"]]


def test_an_errand_keeps_its_place_in_its_lane_and_is_taken_alone():
    queue = filled(prediction("a", 0), errand("a", 1), prediction("a", 2), prediction("b", 0))
    assert take_all(queue, max_batch=4) == [["a0", "b0"], ["a1"], ["a2"]]


def test_a_batch_waits_no_longer_than_allowed_after_its_first():
    queue = filled(prediction("a"), prediction("b"), wait_s=0.1)
    take_all(queue, max_batch=4)
    queue.put(prediction("a", 1))
    began = time.monotonic()
    batch = queue.take(4)
    waited_s = time.monotonic() - began
    assert names(batch) == ["a1"]
    assert waited_s > 0.08


def test_a_batch_goes_at_once_when_nobody_else_has_predicted():
    queue = filled(prediction("a"), wait_s=FOR_EVER_S)
    assert names(queue.take(4)) == ["a0"]


def test_a_batch_is_filled_by_what_arrives_while_it_waits():
    queue = filled(prediction("a"), prediction("b"), wait_s=FOR_EVER_S)
    take_all(queue, max_batch=3)
    queue.put(prediction("a", 1))
    threading.Timer(0.05, lambda: queue.put(prediction("b", 1))).start()
    assert names(queue.take(3)) == ["a1", "b1"]


def test_no_batch_waits_for_company_that_cannot_come():
    queue = filled(prediction("a"), prediction("b"), wait_s=FOR_EVER_S)
    take_all(queue, max_batch=3)
    queue.put(prediction("a", 1))
    threading.Timer(0.05, queue.expect_no_more).start()
    assert names(queue.take(3)) == ["a1"]


def test_a_wait_that_no_clock_can_count_is_a_wait():
    queue = filled(prediction("a"), prediction("b"), wait_s=1e300)
    take_all(queue, max_batch=3)
    queue.put(prediction("a", 1))
    threading.Timer(0.05, lambda: queue.put(prediction("b", 1))).start()
    assert names(queue.take(3)) == ["a1", "b1"]


def test_when_what_was_held_has_expired_the_taker_is_idle(monkeypatch):
    monkeypatch.setattr("rpent_box.worker.queue._POLL_S", FOR_EVER_S)
    turns = []
    queue = WorkQueue(FixedGathering(FOR_EVER_S), enter=turns.append)
    for work in (prediction("a"), prediction("b")):
        queue.put(work)
    take_all(queue, max_batch=3)
    queue.put(prediction("a", 1, deadline_s=0.0))
    taker = threading.Thread(target=lambda: queue.take(3))
    taker.start()
    wait_until(lambda: turns == ["gathering"])
    queue.take_expired(time.monotonic())
    wait_until(lambda: turns == ["gathering", "idle"])
    queue.stop()
    taker.join(5.0)


def test_errands_of_others_are_run_while_a_batch_waits():
    queue = filled(prediction("a"), prediction("b"), wait_s=FOR_EVER_S)
    take_all(queue, max_batch=3)
    for work in (prediction("a", 1), errand("b", 1), prediction("b", 2)):
        queue.put(work)
    assert names(queue.take(3)) == ["b1"]
    queue.finish()
    assert names(queue.take(3)) == ["a1", "b2"]


def test_what_expires_in_a_batch_that_waits_is_taken_out_of_it():
    queue = filled(prediction("a"), prediction("b"), wait_s=FOR_EVER_S)
    take_all(queue, max_batch=3)
    queue.put(prediction("a", 1, deadline_s=0.0))
    taken = []
    taker = threading.Thread(target=lambda: taken.extend(queue.take(3)))
    taker.start()
    assert names(queue.take_expired(time.monotonic())) == ["a1"]
    queue.put(prediction("b", 1))
    queue.put(prediction("a", 2))
    taker.join(5.0)
    assert names(taken) == ["b1", "a2"]


def test_the_expired_are_taken_out_and_errands_never_expire():
    queue = filled(prediction("a", 0, deadline_s=0.0), errand("a", 1), prediction("b", 0))
    assert names(queue.take_expired(time.monotonic())) == ["a0"]
    assert take_all(queue) == [["a1"], ["b0"]]


def test_a_forgotten_connection_leaves_its_errands_behind():
    queue = filled(prediction("a", 0), errand("a", 1), prediction("b", 0))
    queue.forget(b"a")
    assert take_all(queue) == [["a1"], ["b0"]]


def test_what_was_taken_is_in_flight_until_it_is_finished():
    queue = filled(*(prediction(lane) for lane in "abc"))
    queue.take(2)
    assert queue.counts() == (1, 2)
    queue.finish()
    assert queue.counts() == (1, 0)


def test_a_stopped_queue_lets_its_taker_go():
    queue = WorkQueue()
    taken = []
    taker = threading.Thread(target=lambda: taken.append(queue.take(1)))
    taker.start()
    queue.stop()
    taker.join(2.0)
    assert taken == [[]]


def test_order_within_a_lane_survives_any_interleaving():
    rng = np.random.default_rng(0)
    queue = WorkQueue()
    put = {lane: 0 for lane in "abcd"}
    taken = {lane: [] for lane in "abcd"}
    for _ in range(2000):
        if rng.random() < 0.55:
            lane = "abcd"[rng.integers(4)]
            make = errand if rng.random() < 0.2 else prediction
            queue.put(make(lane, put[lane]))
            put[lane] += 1
        elif queue.counts()[0]:
            for work in queue.take(int(rng.integers(1, 5))):
                taken[work.connection.decode()].append(work.request_id)
            queue.finish()
    for batch in take_all(queue, max_batch=4):
        for name in batch:
            taken[name[0]].append(int(name[1:]))
    assert taken == {lane: list(range(count)) for lane, count in put.items()}


def test_a_lane_has_a_limit_and_the_others_do_not_feel_it():
    queue = filled(*(prediction("a", number) for number in range(LANE)))
    with pytest.raises(WorkerBusy, match=f"{LANE} requests that wait"):
        queue.require_room(b"a")
    queue.require_room(b"b")
    queue.take(1)
    queue.require_room(b"a")


def test_a_connection_is_held_while_its_work_waits_or_is_in_flight():
    queue = filled(prediction("a"), errand("b"))
    assert (queue.holds(b"a"), queue.holds(b"b"), queue.holds(b"c")) == (True, True, False)
    queue.take(1)
    assert queue.holds(b"a")
    queue.finish()
    assert not queue.holds(b"a")


def test_all_that_is_unanswered_is_handed_over_at_the_end_in_flight_first():
    queue = filled(prediction("a", 0), prediction("a", 1), errand("b", 0))
    queue.take(1)
    assert names(queue.take_all()) == ["a0", "b0", "a1"]
    assert queue.counts()[0] == 0
