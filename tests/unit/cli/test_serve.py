# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from rpent_box.cli.app import app
from rpent_box.cli.serving import ServeRequest
from rpent_box.errors import ProgramDied
from rpent_box.live.metrics_server import serve_metrics
from rpent_box.live.worker_figures import WorkerFigures

pytestmark = pytest.mark.usefixtures("toy")


class Workers:
    """Stands in for `start_worker`: keeps what it was asked; its workers end when told."""

    def __init__(self) -> None:
        self.asked: list[ServeRequest] = []
        self.end: BaseException = KeyboardInterrupt()
        self.closed = 0

    @contextmanager
    def __call__(
        self, request: ServeRequest, *, say: object, environ: Mapping[str, str]
    ) -> Iterator[SimpleNamespace]:
        self.asked.append(request)
        program = SimpleNamespace(log="/runs/worker.log")
        running = SimpleNamespace(program=program, describe=lambda: "worker toy (process 7)")
        try:
            yield SimpleNamespace(
                endpoint="tcp://127.0.0.1:4711", running=running, watch=self.watch
            )
        finally:
            self.closed += 1

    def watch(self) -> None:
        raise self.end


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    stand_in = Workers()
    monkeypatch.setattr("rpent_box.cli.serve.start_worker", stand_in)
    return stand_in


def invoke(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["serve", *words])
    return result.exit_code, result.stdout, result.stderr


def test_the_endpoint_stands_alone_on_stdout(workers: Workers) -> None:
    code, out, err = invoke("toy")
    assert (code, out) == (0, "tcp://127.0.0.1:4711\n")
    assert "rpent-box run --platform toy --endpoint tcp://127.0.0.1:4711" in err
    assert workers.closed == 1


def test_json_prints_the_endpoint_as_one_object(workers: Workers) -> None:
    code, out, _ = invoke("toy", "--json", "--quiet")
    assert code == 0
    assert json.loads(out) == {
        "endpoint": "tcp://127.0.0.1:4711",
        "backend": "toy",
        "platform": "toy",
        "log": "/runs/worker.log",
    }


def test_options_reach_the_worker(workers: Workers) -> None:
    code, _, err = invoke(
        "toy", "--checkpoint", "/w", "--listen", "tcp://0.0.0.0:0", "--python", "/p", "--root",
        "/r", "--device", "cuda", "--cuda-device", "GPU-1", "--threads", "3",
        "--noise", "0.2", "--launcher", "process", "--start-timeout", "9",
        "--output", "/out", "--build",
    )  # fmt: skip
    assert code == 0, err
    (request,) = workers.asked
    assert (request.spec.name, request.platform, request.checkpoint) == ("toy", "toy", "/w")
    assert (request.listen, request.python, request.root) == ("tcp://0.0.0.0:0", "/p", "/r")
    assert (request.device, request.cuda_device, request.threads) == ("cuda", "GPU-1", 3)
    assert request.options == ("--noise=0.2",)
    assert (request.launcher, request.build) == ("process", True)
    assert (request.start_timeout_s, request.output_dir) == (9.0, "/out")


def test_a_worker_that_ends_by_itself_is_an_error(workers: Workers) -> None:
    workers.end = ProgramDied("worker toy (process 7) has ended: exit code 3")
    code, _, err = invoke("toy")
    assert code == 1
    assert "error: worker toy (process 7) has ended: exit code 3" in err


def test_sigterm_is_the_usual_end(workers: Workers) -> None:
    workers.end = SystemExit(143)
    assert invoke("toy")[0] == 0


def test_help_lists_the_backends_own_options_with_defaults(workers: Workers) -> None:
    code, out, _ = invoke("toy", "--help")
    assert code == 0
    assert "--noise X" in out
    assert "Size of the seeded noise on actions. (default: 0.0)" in out
    assert "--checkpoint" in out
    assert workers.asked == []


def test_help_without_a_backend_is_the_commands_own(workers: Workers) -> None:
    code, out, _ = invoke("--help")
    assert code == 0
    assert "BACKEND" in out
    assert "own options:" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "which backend shall be served?"),
        (("nobody",), "no backend called nobody"),
        (("toy", "--nois", "0.1"), "Did you mean --noise?"),
        (("toy", "--noise", "loud"), "noise"),
        (("toy", "--predict-future"), "toy has no option --predict-future"),
    ],
)
def test_wrong_usage_exits_with_2(workers: Workers, words: tuple[str, ...], said: str) -> None:
    code, out, err = invoke(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert workers.asked == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--platform", "libero"), "no adapter for the platform libero"),
        (("--listen", "here"), "is not an endpoint"),
        (("--launcher", "docker", "--python", "/p"), "an image brings its own"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_started(
    words: tuple[str, ...], said: str
) -> None:
    code, out, err = invoke("toy", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_metrics_are_served_as_long_as_the_worker(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    urls: list[str] = []

    @contextmanager
    def noting(source: WorkerFigures, *, host: str, port: int) -> Iterator[str]:
        with serve_metrics(source, host=host, port=port) as url:
            urls.append(url)
            yield url

    def fetch() -> None:
        with urllib.request.urlopen(urls[0], timeout=10) as answer:
            fetched.append(answer.read().decode())
        raise KeyboardInterrupt

    monkeypatch.setattr("rpent_box.cli.serve.serve_metrics", noting)
    monkeypatch.setattr(workers, "watch", fetch)
    code, out, err = invoke("toy", "--metrics", "0")
    assert (code, out) == (0, "tcp://127.0.0.1:4711\n")
    assert f"metrics: {urls[0]}" in err
    assert 'rpent_box_worker_up{place="local"} 0.0' in fetched[0], "the stand-in answers nothing"


def test_an_address_for_metrics_that_cannot_be_had_costs_no_start(workers: Workers) -> None:
    assert invoke("toy", "--metrics", "everywhere")[0] == 2
    code, _, err = invoke("toy", "--metrics", "192.0.2.1:0")
    assert code != 0
    assert "192.0.2.1" in err
    assert workers.asked == []
