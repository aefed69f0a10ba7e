# SPDX-License-Identifier: Apache-2.0
from rpent_box.contracts.messages import Figures, Histogram
from rpent_box.evaluate.scale.figures import added, since

FIRST = Figures(
    ready_s=10.0,
    busy_s=4.0,
    gathering_s=1.0,
    idle_s=5.0,
    served=6,
    refused=1,
    batches={1: 2, 2: 2},
    infer_s=Histogram(bounds=(0.1, 1.0), counts=(1, 2, 0), total=1.5),
    max_batch=2,
)
SECOND = Figures(
    ready_s=1.0,
    busy_s=0.5,
    idle_s=0.5,
    served=3,
    batches={1: 1, 2: 1},
    infer_s=Histogram(bounds=(0.1, 1.0), counts=(0, 1, 1), total=2.5),
    queue_s=Histogram(bounds=(1.0,), counts=(3, 0), total=0.3),
    max_batch=4,
    max_wait_ms=2.0,
)


def test_two_workers_are_added_up_and_the_later_says_how_it_batches():
    both = added(FIRST, SECOND)
    assert (both.ready_s, both.busy_s, both.served, both.refused) == (11.0, 4.5, 9, 1)
    assert both.batches == {1: 3, 2: 3}
    assert both.infer_s == Histogram(bounds=(0.1, 1.0), counts=(1, 3, 1), total=4.0)
    assert both.queue_s == SECOND.queue_s
    assert (both.max_batch, both.max_wait_ms) == (4, 2.0)
    assert added(None, SECOND) == SECOND


def test_what_was_counted_before_is_taken_off():
    assert since(FIRST, added(FIRST, SECOND)) == SECOND
    assert since(None, FIRST) == FIRST


def test_histograms_of_other_bounds_are_not_mixed():
    other = Figures(infer_s=Histogram(bounds=(5.0,), counts=(1, 0), total=1.0))
    assert added(FIRST, other).infer_s == other.infer_s
