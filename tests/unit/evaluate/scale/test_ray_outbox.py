# SPDX-License-Identifier: Apache-2.0
"""Events for the driver: each is kept until it has come, and it is not flooded with progress."""

import threading
import time

from rpent_box.contracts.control_messages import Progress
from rpent_box.evaluate.scale.events import Moved, Phase
from rpent_box.evaluate.scale.plan import Job
from rpent_box.evaluate.scale.ray_outbox import Outbox

JOB = Job(episode=0, suite="toy_easy", task=0, init_state=0, seed=7, max_steps=40)


def phase(text):
    return Phase(component="node-0 worker", text=text)


def moved(simulator, steps):
    return Moved(simulator=simulator, job=JOB, progress=Progress(phase="acting", steps=steps))


def test_events_are_kept_until_their_number_comes_back():
    outbox = Outbox()
    outbox.put(phase("loading"))
    outbox.put(phase("ready"))
    number, events = outbox.after(0, 0)
    assert events == (phase("loading"), phase("ready"))
    # The answer was lost: the same question again.
    assert outbox.after(0, 0) == (number, events)
    outbox.put(phase("serving"))
    assert outbox.after(number, 0) == (number + 1, (phase("serving"),))
    assert outbox.after(number + 1, 0) == (number + 1, ())


def test_only_the_last_word_on_an_episode_is_kept():
    outbox = Outbox()
    for steps in range(1000):
        outbox.put(moved("node-0/0", steps))
        outbox.put(moved("node-0/1", 2 * steps))
    _, events = outbox.after(0, 0)
    assert events == (moved("node-0/0", 999), moved("node-0/1", 1998))


def test_whoever_waits_gets_what_comes_at_once():
    outbox = Outbox()
    began = time.monotonic()
    threading.Timer(0.05, outbox.put, [phase("ready")]).start()
    assert outbox.after(0, 30.0) == (1, (phase("ready"),))
    threading.Timer(0.05, outbox.wake).start()
    assert outbox.after(1, 30.0) == (1, ())
    assert time.monotonic() - began < 10


def test_a_driver_that_stays_away_costs_no_memory_without_end(monkeypatch):
    monkeypatch.setattr("rpent_box.evaluate.scale.ray_outbox.MOST", 10)
    outbox = Outbox()
    for n in range(100):
        outbox.put(phase(str(n)))
    _, events = outbox.after(0, 0)
    assert [event.text for event in events] == [str(n) for n in range(90, 100)]
