# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from live_browser import ask, token_of
from live_story import acting, begun, failure, figures, plan, restart, row
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rpent_box.contracts.messages import GetFigures, Hello, Reply, Welcome
from rpent_box.errors import SocketBusy, UsageError
from rpent_box.live.dashboard import serve_dashboard
from rpent_box.live.metrics import MOST_TASKS, EvaluationCollector, WorkerCollector
from rpent_box.live.metrics_server import serve_metrics
from rpent_box.live.state import LiveState
from rpent_box.live.worker_figures import WorkerFigures
from rpent_box.transport.channel import ServerChannel
from rpent_box.version import PROTOCOL_VERSION

GRAFANA = Path(__file__).parents[3] / "docs" / "grafana"
PROMETHEUS_ADDS = {"instance", "job"}

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def told_state() -> LiveState:
    """An evaluation of which something of everything is known."""
    state = LiveState()
    begin = begun(plan(tasks=2, episodes=5))
    state.on_begin(begin)
    state.on_envs("", 3, "asked for")
    for number, success in enumerate((True, True, False)):
        state.on_progress("0", begin.jobs[number], acting())
        state.on_episode(row(begin.jobs[number], success=success))
    state.on_failure(failure(begin.jobs[3]))
    state.on_progress("0", begin.jobs[4], acting())
    state.on_progress("1", begin.jobs[5], acting())
    state.on_restart("2", begin.jobs[6], restart("died"))
    state.on_worker("", figures(100.0))
    return state


def exposition(collector: EvaluationCollector | WorkerCollector) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry).decode()


def samples_of(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture(scope="module")
def samples() -> Samples:
    return samples_of(exposition(EvaluationCollector(told_state())))


def value(samples: Samples, name: str, /, **labels: str) -> float:
    return samples[(name, frozenset(labels.items()))]


def test_episodes_are_counted_by_task_and_outcome(samples: Samples) -> None:
    task = {"suite": "toy_easy", "task": "0"}
    for outcome, count in (("success", 2), ("failure", 1), ("error", 1)):
        assert value(samples, "rpent_box_episodes_total", **task, outcome=outcome) == count
    assert value(samples, "rpent_box_episodes_planned", **task) == 5
    assert value(samples, "rpent_box_steps_total", **task) == 20 + 20 + 40
    assert value(samples, "rpent_box_task_info", **task, name="put_the_0_away") == 1


def test_simulators_are_counted_by_what_they_do(samples: Samples) -> None:
    states = {
        dict(labels)["state"]: count
        for (name, labels), count in samples.items()
        if name == "rpent_box_simulators"
    }
    assert states == {
        **{"resetting": 0, "waiting": 0, "acting": 2, "video": 0, "replacing": 1, "idle": 0},
    }


def test_the_workers_figures_are_passed_on_as_they_are(samples: Samples) -> None:
    here = {"place": "local"}
    assert value(samples, "rpent_box_worker_busy_seconds_total", **here) == 50.0
    assert value(samples, "rpent_box_worker_predictions_total", **here, outcome="served") == 60
    assert value(samples, "rpent_box_worker_max_wait_seconds", **here) == 0.0035
    assert value(samples, "rpent_box_restarts_total", why="died") == 1
    assert value(samples, "rpent_box_restarts_total", why="hung") == 0
    assert value(samples, "rpent_box_errors_total", code="simulator") == 1
    assert value(samples, "rpent_box_evaluation_running") == 1


def test_histograms_are_cumulative_as_prometheus_has_them(samples: Samples) -> None:
    told = figures(1.0).infer_s
    assert told is not None
    name = "rpent_box_inference_seconds"
    running = 0
    for bound, count in zip(told.bounds, told.counts, strict=False):
        running += count
        assert value(samples, f"{name}_bucket", place="local", le=str(bound)) == running
    assert value(samples, f"{name}_bucket", place="local", le="+Inf") == sum(told.counts)
    assert value(samples, f"{name}_count", place="local") == sum(told.counts)
    assert value(samples, f"{name}_sum", place="local") == told.total
    assert value(samples, "rpent_box_batch_size_count", place="local") == 32
    assert value(samples, "rpent_box_batch_size_sum", place="local") == 60
    assert value(samples, "rpent_box_batch_size_bucket", place="local", le="2.0") == 30


def test_names_follow_the_conventions() -> None:
    for family in text_string_to_metric_families(exposition(EvaluationCollector(told_state()))):
        assert re.fullmatch(r"rpent_box_[a-z_]+", family.name)
        assert family.documentation
        assert not re.search(r"_(ms|milliseconds|minutes|percent)(_|$)", family.name)
        if family.type == "counter":
            assert all(s.name.endswith(("_total", "_created")) for s in family.samples)
        else:
            assert not family.name.endswith("_total")


def test_labels_have_few_values_whatever_is_played() -> None:
    state = LiveState()
    begin = begun(plan(tasks=600, episodes=2, suites=("one", "two")))
    state.on_begin(begin)
    for job in begin.jobs:
        state.on_progress("0", job, acting())
        state.on_episode(row(job, success=job.episode % 2 == 0))
    for number in range(200):
        state.on_failure(failure(begin.jobs[0], code=f"made-up-{number}"))
    text = exposition(EvaluationCollector(state))
    samples = samples_of(text)
    assert len(samples) < 3 * MOST_TASKS + 3 * MOST_TASKS + 300
    episodes = {k: v for k, v in samples.items() if k[0] == "rpent_box_episodes_total"}
    assert sum(episodes.values()) == len(begin.jobs) + 200, "tasks that share a label still count"
    assert not re.search(r'(init_state|seed|episode)="', text)


def test_counters_of_a_resumed_evaluation_go_on_where_they_were() -> None:
    state = LiveState()
    begin = begun(plan(tasks=1, episodes=5), played=3)
    state.on_begin(begin)
    samples = samples_of(exposition(EvaluationCollector(state)))
    assert (
        value(samples, "rpent_box_episodes_total", suite="toy_easy", task="0", outcome="success")
        == 3
    )


def test_a_counter_says_nothing_before_it_is_known_what_earlier_sittings_did() -> None:
    state = LiveState()
    before = samples_of(exposition(EvaluationCollector(state)))
    state.on_begin(begun(plan(tasks=1, episodes=5), played=3))
    after = samples_of(exposition(EvaluationCollector(state)))
    for (name, labels), count in after.items():
        if name.endswith("_total") and count > 0:
            assert (name, labels) not in before, "from zero to this would count as an increase"


def test_counters_that_may_stay_at_nothing_are_there_from_the_start(samples: Samples) -> None:
    for code in ("program_died", "error"):
        assert value(samples, "rpent_box_errors_total", code=code) == 0
    assert value(samples, "rpent_box_worker_losses_total", place="local") == 0


def test_text_in_names_cannot_break_the_exposition() -> None:
    state = LiveState()
    begin = begun(plan(tasks=1, suites=('a"b\\c\nd',)))
    state.on_begin(begin)
    samples = samples_of(exposition(EvaluationCollector(state)))
    assert value(samples, "rpent_box_episodes_planned", suite='a"b\\c\nd', task="0") == 3


# --- over HTTP ----------------------------------------------------------------------------------


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return str(answer.read().decode())


def test_metrics_are_served_on_loopback_without_a_token() -> None:
    with serve_metrics(told_state()) as url:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", url)
        assert "rpent_box_episodes_total" in fetched(url)
        with pytest.raises(SocketBusy, match="Address already in use"):
            serve_metrics(told_state(), port=int(url.split(":")[2].split("/")[0])).__enter__()
    with pytest.raises(OSError, match="refused"):
        fetched(url)
    assert not [thread for thread in threading.enumerate() if thread.name == "metrics"]


def test_a_web_site_that_calls_itself_this_machine_is_refused_unless_all_may_ask() -> None:
    with serve_metrics(told_state()) as url:
        assert ask(url, Host="rebound.example.com:9400").status == 403
        assert ask(url, Host="localhost:9400").status == 200
        assert ask(url, "/").status == 404
    with serve_metrics(told_state(), host="0.0.0.0") as url:
        assert ask(url, Host="gpu-7:9400").status == 200


def test_metrics_are_served_at_an_address_of_the_newer_kind_too() -> None:
    with serve_metrics(told_state(), host="::1") as url:
        assert re.fullmatch(r"http://\[::1\]:\d+/metrics", url)
        assert "rpent_box_episodes_total" in fetched(url)


def test_metrics_have_a_registry_of_their_own() -> None:
    with serve_metrics(told_state()) as one, serve_metrics(LiveState()) as other:
        assert 'outcome="success"' in fetched(one)
        text = fetched(other)
        assert 'outcome="success"' not in text
        assert "python_info" not in text


def test_an_address_that_is_not_ours_is_refused() -> None:
    with pytest.raises(SocketBusy, match="192.0.2.1"):
        serve_metrics(LiveState(), host="192.0.2.1").__enter__()


def test_the_dashboard_has_the_same_metrics_for_whoever_has_its_token() -> None:
    with serve_dashboard(told_state()) as url:
        assert ask(url, "/metrics").status == 403
        answer = ask(url, "/metrics", Authorization=f"Bearer {token_of(url)}")
    assert answer.headers["content-type"].startswith("text/plain")
    assert b'rpent_box_episodes_total{outcome="success",suite="toy_easy",task="0"} 2.0' in (
        answer.body
    )


def test_what_is_not_installed_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "rpent_box.live.metrics", raising=False)
    with pytest.raises(UsageError, match="prometheus_client") as caught:
        serve_metrics(LiveState()).__enter__()
    assert "rpent-box[dashboard]" in caught.value.hint


# --- of a worker that serves by itself ----------------------------------------------------------


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """A worker's socket whose figures grow with every question; yields what it was asked."""
    asked: list[str] = []
    stop = threading.Event()
    with ServerChannel.bind(f"ipc://{tmp_path}/worker.sock") as channel:

        def serve() -> None:
            while not stop.is_set():
                incoming = channel.receive(0.05)
                if incoming is None:
                    continue
                body = incoming.request.body
                asked.append(type(body).__name__)
                answer: Welcome | object = Welcome(
                    protocol=PROTOCOL_VERSION, backend="toy", kind="wam", state="ready", version="0"
                )
                if isinstance(body, GetFigures):
                    answer = figures(10.0 * len(asked))
                elif not isinstance(body, Hello):
                    continue
                channel.send(incoming.connection, Reply(id=incoming.request.id, body=answer))

        thread = threading.Thread(target=serve)
        thread.start()
        yield channel.endpoint, asked
        stop.set()
        thread.join()


def test_a_worker_is_asked_when_prometheus_asks(worker: tuple[str, list[str]]) -> None:
    endpoint, asked = worker
    now = [0.0]
    source = WorkerFigures(endpoint, clock=lambda: now[0])
    samples = samples_of(exposition(WorkerCollector(source)))
    assert value(samples, "rpent_box_worker_up", place="local") == 1
    assert value(samples, "rpent_box_worker_ready_seconds_total", place="local") == 20.0
    assert asked == ["Hello", "GetFigures"]
    samples_of(exposition(WorkerCollector(source)))
    assert len(asked) == 2, "not twice within a second"
    now[0] += 2.0
    samples = samples_of(exposition(WorkerCollector(source)))
    assert value(samples, "rpent_box_worker_ready_seconds_total", place="local") == 40.0


def test_a_worker_that_is_not_there_is_down_and_no_error(tmp_path: Path) -> None:
    source = WorkerFigures()
    with serve_metrics(source) as url:
        assert 'rpent_box_worker_up{place="local"} 0.0' in fetched(url)
        source.endpoint = f"ipc://{tmp_path}/nobody.sock"
        text = fetched(url)
    assert 'rpent_box_worker_up{place="local"} 0.0' in text
    assert "rpent_box_worker_busy_seconds_total{" not in text


# --- Grafana ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grafana() -> dict:
    return json.loads((GRAFANA / "rpent-box.json").read_text())


@pytest.fixture(scope="module")
def labels_of(samples: Samples) -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    for name, labels in samples:
        known.setdefault(name, set()).update(label for label, _ in labels)
    up = samples_of(exposition(WorkerCollector(WorkerFigures())))
    for name, labels in up:
        known.setdefault(name, set()).update(label for label, _ in labels)
    return known


def expressions(grafana: dict) -> list[tuple[str, str]]:
    """Return (expression, legend) of every target of every panel."""
    return [
        (target["expr"], target["legendFormat"])
        for panel in grafana["panels"]
        for target in panel["targets"]
    ]


def metrics_in(expression: str) -> list[tuple[str, set[str]]]:
    """Return each metric of an expression with the labels that it is selected by."""
    return [
        (name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector or "")))
        for name, selector in re.findall(r"\b(rpent_box_\w+)(?:\{([^}]*)\})?", expression)
    ]


def test_every_expression_asks_for_metrics_and_labels_that_there_are(
    grafana: dict, labels_of: dict[str, set[str]]
) -> None:
    assert len(expressions(grafana)) > 20
    for expression, legend in expressions(grafana):
        found = metrics_in(expression)
        assert found, expression
        for name, selected in found:
            assert name in labels_of, f"{name} is exported nowhere"
            assert selected <= labels_of[name] | PROMETHEUS_ADDS, (name, selected)
        grouped = {
            label.strip()
            for group in re.findall(r"\bby \(([^)]*)\)", expression)
            for label in group.split(",")
        }
        for name, _ in found:
            assert grouped <= labels_of[name] | PROMETHEUS_ADDS, (name, grouped)
        shown = set(re.findall(r"\{\{(\w+)\}\}", legend))
        assert shown <= grouped, f"{legend!r} shows what {expression} has not kept"
        assert expression.count("(") == expression.count(")")


def test_counters_are_asked_for_their_rate_or_their_state_and_gauges_are_not(
    grafana: dict,
) -> None:
    for expression, _ in expressions(grafana):
        for inner in re.findall(r"\b(?:rate|increase)\((\w+)", expression):
            assert inner.endswith(("_total", "_bucket", "_sum", "_count")), inner


def test_every_metric_that_matters_is_shown_somewhere(grafana: dict) -> None:
    shown = {name for expression, _ in expressions(grafana) for name, _ in metrics_in(expression)}
    for name in (
        "rpent_box_episodes_total",
        "rpent_box_worker_busy_seconds_total",
        "rpent_box_inference_seconds_bucket",
        "rpent_box_queue_seconds_bucket",
        "rpent_box_batch_size_sum",
        "rpent_box_simulators",
        "rpent_box_restarts_total",
        "rpent_box_worker_losses_total",
        "rpent_box_stage_seconds_total",
        "rpent_box_evaluation_eta_seconds",
    ):
        assert name in shown, name


def test_grafana_can_import_it(grafana: dict) -> None:
    assert grafana["id"] is None, "an id would stand for a dashboard of another Grafana"
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", grafana["uid"])
    assert grafana["title"]
    assert grafana["schemaVersion"] >= 36
    variables = {one["name"]: one for one in grafana["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps(grafana["panels"]))) - {"__rate_interval"}
    assert used <= set(variables)
    ids = [panel["id"] for panel in grafana["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in grafana["panels"]:
        assert panel["title"]
        assert panel["type"] in {"stat", "gauge", "timeseries", "heatmap", "table"}
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert [target["refId"] for target in panel["targets"]] == sorted(
            {target["refId"] for target in panel["targets"]}
        )
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])


def test_panels_lie_within_the_grid_and_do_not_overlap(grafana: dict) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in grafana["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_example_for_prometheus_scrapes_what_we_serve() -> None:
    example = yaml.safe_load((GRAFANA / "prometheus.yml").read_text())
    jobs = {job["job_name"] for job in example["scrape_configs"]}
    assert jobs == {"rpent-box-eval", "rpent-box-serve"}
    assert all("metrics_path" not in job for job in example["scrape_configs"])
