# SPDX-License-Identifier: Apache-2.0
"""Figures for Prometheus: of an evaluation, and of a worker that serves by itself.

Labels have few values: suites and tasks of one platform (the first `MOST_TASKS` of them), machines,
the states and reasons that this package knows. Never an episode, an init state or a seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rpent_box.contracts.messages import Figures, Histogram
from rpent_box.errors import codes
from rpent_box.live.histograms import cumulative, of_batches
from rpent_box.live.picture import SEAT_STATES, Picture, Task
from rpent_box.live.state import LiveState, place_of
from rpent_box.live.worker_figures import WorkerFigures
from rpent_box.version import __version__

Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
MOST_TASKS = 500
OTHER = "other"
"""Stands for all further tasks."""
HERE = "local"
"""The label of this machine."""


def metrics_route(source: LiveState | WorkerFigures) -> Route:
    """Return what answers `/metrics`, in a thread of its own: a worker takes a while to answer."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(
        WorkerCollector(source)
        if isinstance(source, WorkerFigures)
        else EvaluationCollector(source)
    )

    def answer(request: Request) -> Response:
        content = generate_latest(registry)
        return Response(content, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return Route("/metrics", answer, methods=["GET"])


class EvaluationCollector(Collector):
    """Says how an evaluation stands whenever it is asked."""

    def __init__(self, state: LiveState) -> None:
        self._state = state

    def collect(self) -> Iterator[Family]:
        """Yield every metric. Counters of episodes include those of earlier sittings."""
        picture = self._state.picture()
        yield from _about(picture)
        yield from _of_tasks(picture.tasks)
        yield from _of_episodes(picture)
        yield from _of_simulators(picture)
        yield from figures_families(
            {machine.name or HERE: machine.figures for machine in picture.machines}
        )


class WorkerCollector(Collector):
    """Says what one worker that serves by itself has counted."""

    def __init__(self, source: WorkerFigures) -> None:
        self._source = source

    def collect(self) -> Iterator[Family]:
        """Yield its figures; little more than `rpent_box_worker_up 0` when it does not answer."""
        figures = self._source.ask()
        up = 0 if figures is None else 1
        yield _version()
        yield _gauge("rpent_box_worker_up", "1 if the worker answers.", ("place",), [((HERE,), up)])
        yield from figures_families({HERE: figures})


def figures_families(figures: Mapping[str, Figures | None]) -> Iterator[Family]:
    """Yield what workers counted, by the place that they are at."""
    known = {place: it for place, it in figures.items() if it is not None}
    yield _counter(
        "rpent_box_worker_ready_seconds",
        "Time since the worker's model was ready.",
        ("place",),
        (((place,), it.ready_s) for place, it in known.items()),
    )
    yield _counter(
        "rpent_box_worker_busy_seconds",
        "Time that the worker spent inside its model, encoding and decoding included.",
        ("place",),
        (((place,), it.busy_s) for place, it in known.items()),
    )
    yield _counter(
        "rpent_box_worker_gathering_seconds",
        "Time that the worker held a batch open for company.",
        ("place",),
        (((place,), it.gathering_s) for place, it in known.items()),
    )
    yield _counter(
        "rpent_box_worker_idle_seconds",
        "Time that the worker was asked nothing.",
        ("place",),
        (((place,), it.idle_s) for place, it in known.items()),
    )
    yield _counter(
        "rpent_box_worker_predictions",
        "Predictions answered: with a chunk (served) or with a fault (refused).",
        ("place", "outcome"),
        (
            ((place, outcome), count)
            for place, it in known.items()
            for outcome, count in (("served", it.served), ("refused", it.refused))
        ),
    )
    yield _gauge(
        "rpent_box_worker_max_batch",
        "Most observations in one inference.",
        ("place",),
        (((place,), it.max_batch) for place, it in known.items()),
    )
    yield _gauge(
        "rpent_box_worker_max_wait_seconds",
        "How long a batch waits for company at present.",
        ("place",),
        (((place,), it.max_wait_ms / 1000) for place, it in known.items()),
    )
    yield _histogram(
        "rpent_box_inference_seconds",
        "Duration of one inference, of a whole batch.",
        "place",
        ((place, it.infer_s) for place, it in known.items()),
    )
    yield _histogram(
        "rpent_box_queue_seconds",
        "From a prediction's arrival at the worker to the start of its inference.",
        "place",
        ((place, it.queue_s) for place, it in known.items()),
    )
    yield _histogram(
        "rpent_box_batch_size",
        "Observations in one inference.",
        "place",
        ((place, of_batches(it.batches)) for place, it in known.items() if it.batches),
    )


def _about(picture: Picture) -> Iterator[Family]:
    yield _version()
    yield _gauge(
        "rpent_box_evaluation_info",
        "What is evaluated.",
        ("run", "platform", "backend"),
        [((picture.run, picture.platform, picture.backend), 1)] if picture.run else [],
    )
    yield _gauge(
        "rpent_box_evaluation_running",
        "1 while the evaluation goes on, 0 when it has ended.",
        (),
        [((), 0 if picture.phase == "ended" else 1)],
    )
    yield _gauge(
        "rpent_box_evaluation_eta_seconds",
        "Time until all episodes are played, at the present pace; absent while unknown.",
        (),
        [] if picture.eta_s is None else [((), picture.eta_s)],
    )


def _of_tasks(tasks: Iterable[Task]) -> Iterator[Family]:
    planned: Counter[tuple[str, str]] = Counter()
    outcomes: Counter[tuple[str, str, str]] = Counter()
    steps: Counter[tuple[str, str]] = Counter()
    names: dict[tuple[str, str], str] = {}
    for number, task in enumerate(tasks):
        key = (task.suite, str(task.task)) if number < MOST_TASKS else (task.suite, OTHER)
        planned[key] += task.episodes
        steps[key] += task.steps
        for outcome, count in (
            ("success", task.successes),
            ("failure", task.failures),
            ("error", task.errors),
        ):
            outcomes[key + (outcome,)] += count
        if number < MOST_TASKS:
            names[key] = task.name
    labels = ("suite", "task")
    yield _gauge("rpent_box_episodes_planned", "Episodes asked for.", labels, planned.items())
    yield _counter(
        "rpent_box_episodes",
        "Episodes that ended; error means without a result.",
        (*labels, "outcome"),
        outcomes.items(),
    )
    yield _counter("rpent_box_steps", "Control steps executed.", labels, steps.items())
    yield _gauge(
        "rpent_box_task_info",
        "The name of a task.",
        (*labels, "name"),
        (((*key, name), 1) for key, name in names.items()),
    )


def _of_episodes(picture: Picture) -> Iterator[Family]:
    # Nothing before it is known what earlier sittings did: a counter that falls to zero and comes
    # back looks like as many new predictions.
    yield _counter(
        "rpent_box_predictions",
        "Chunks that simulators got.",
        (),
        [((), picture.predictions)] if picture.run else [],
    )
    yield _counter(
        "rpent_box_stage_seconds",
        "Where the time of played episodes went.",
        ("stage",),
        (((stage,), seconds) for stage, seconds in picture.stages_s.items()),
    )
    yield _histogram(
        "rpent_box_episode_seconds",
        "How long an episode took, from its first prediction to its end.",
        "suite",
        picture.episode_s.items(),
    )
    yield _counter(
        "rpent_box_errors",
        "Episodes that ended without a result, by the error's code.",
        ("code",),
        # All of them from the start: of a counter that begins with 1 no increase is seen.
        (((code,), picture.error_codes.get(code, 0)) for code in sorted(codes())),
    )


def _of_simulators(picture: Picture) -> Iterator[Family]:
    states: Counter[tuple[str, str]] = Counter()
    for machine in picture.machines:
        for state in SEAT_STATES:
            states[machine.name or HERE, state] = 0
    for seat in picture.seats:
        states[place_of(seat.name) or HERE, seat.state] += 1
    yield _gauge(
        "rpent_box_simulators",
        "Simulators by what they do just now.",
        ("place", "state"),
        states.items(),
    )
    yield _counter(
        "rpent_box_restarts",
        "Simulators that were replaced in an episode: they hung or died.",
        ("why",),
        (((why,), count) for why, count in picture.restarts.items()),
    )
    yield _counter(
        "rpent_box_worker_losses",
        "Workers that ended before their time.",
        ("place",),
        (((machine.name or HERE,), machine.lost) for machine in picture.machines),
    )


def _version() -> Family:
    return _gauge("rpent_box_info", "Version of rpent-box.", ("version",), [((__version__,), 1)])


Samples: TypeAlias = Iterable[tuple[tuple[str, ...], float]]


def _counter(name: str, says: str, labels: tuple[str, ...], samples: Samples) -> Family:
    family = CounterMetricFamily(name, says, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _gauge(name: str, says: str, labels: tuple[str, ...], samples: Samples) -> Family:
    family = GaugeMetricFamily(name, says, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _histogram(
    name: str, says: str, label: str, samples: Iterable[tuple[str, Histogram | None]]
) -> Family:
    family = HistogramMetricFamily(name, says, labels=(label,))
    for value, histogram in samples:
        if histogram is not None:
            family.add_metric((value,), cumulative(histogram), histogram.total)
    return family
