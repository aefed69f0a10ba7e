# SPDX-License-Identifier: Apache-2.0
import threading

from fake_models import FakeModel
from running_service import running

from rpent_box.worker.health import main


def test_a_ready_worker_is_healthy(capsys):
    with running(FakeModel(), link="tcp") as worker:
        channel = worker.channel()
        worker.await_state("ready", channel)
        assert main([worker._channel.endpoint]) == 0
    assert capsys.readouterr().out == "ready\n"


def test_a_worker_that_still_loads_is_not_healthy_yet(capsys):
    finish = threading.Event()

    def load(_say):
        finish.wait(60.0)
        return FakeModel()

    with running(load, link="tcp") as worker:
        channel = worker.channel()
        worker.await_state("loading", channel)
        assert main([worker._channel.endpoint]) == 1
        finish.set()
    assert capsys.readouterr().out == "loading\n"


def test_nobody_listening_is_not_healthy_and_says_so(tmp_path, capsys):
    assert main([f"ipc://{tmp_path}/no.sock"]) == 1
    assert "no.sock" in capsys.readouterr().err


def test_wrong_usage_is_told(capsys):
    assert main([]) == 2
    assert "usage:" in capsys.readouterr().err
