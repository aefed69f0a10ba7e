# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import msgspec
import pytest
from rpent_box_toy.backend import ToyBackendOptions

from rpent_box.contracts.checkpoint import CheckpointFile, CheckpointManifest
from rpent_box.errors import BadOption, UnknownName, UsageError
from rpent_box.worker import serve
from rpent_box.worker.arguments import parse_arguments
from rpent_box.worker.config import ServiceConfig

TOY = Path(__file__).parents[2] / "support" / "toy"
NEEDED = ("toy", "--endpoint=ipc:///tmp/w.sock", "--platform=toy")


@pytest.fixture(autouse=True)
def _toy_is_installed(monkeypatch):
    monkeypatch.syspath_prepend(str(TOY / "entry_points"))


FILES = CheckpointManifest(
    backend="toy",
    platform="toy",
    checkpoint="weights",
    files=(CheckpointFile(role="weights", path="toy.json", size=2, sha256="ab"),),
    suites=("toy_easy",),
)


def test_files_that_are_no_manifest_are_refused():
    with pytest.raises(BadOption, match="--checkpoint-files is no manifest"):
        parse_arguments([*NEEDED, "--checkpoint-files={}"])


def test_what_is_not_said_has_its_default():
    arguments = parse_arguments(NEEDED)
    assert arguments.spec.name == "toy"
    assert arguments.options == ToyBackendOptions()
    assert arguments.service == ServiceConfig(facts={"worker_device": "cpu", "worker_threads": "1"})
    assert (arguments.box, arguments.checkpoint, arguments.threads) == (None, None, 1)
    assert arguments.device == "cpu"


def test_everything_can_be_said():
    arguments = parse_arguments(
        [
            *NEEDED,
            "--checkpoint=/weights",
            f"--checkpoint-files={msgspec.json.encode(FILES).decode()}",
            "--box=1a2b3c4d",
            "--view=container",
            "--lease=/run/rpent-box/lease",
            "--threads=3",
            "--max-batch=4",
            "--max-wait-ms=1.5",
            "--session-idle-s=30",
            "--drain-s=2",
            "--noise=0.5",
            "--misbehave=nan",
            "--verbose",
        ]
    )
    assert arguments.options == ToyBackendOptions(noise=0.5, misbehave="nan")
    assert arguments.service == ServiceConfig(
        max_batch=4,
        max_wait_ms=1.5,
        session_idle_s=30.0,
        drain_s=2.0,
        lease=Path("/run/rpent-box/lease"),
        checkpoint_files=FILES,
        facts={"worker_device": "cpu", "worker_threads": "3"},
    )
    assert arguments.checkpoint == "/weights"
    assert arguments.box.lease == Path("/run/rpent-box/lease")
    assert (arguments.threads, arguments.verbose) == (3, True)


@pytest.mark.parametrize("words", [[], ["--max-wait-ms=auto"]])
def test_the_wait_for_company_is_tuned_unless_a_number_is_given(words):
    assert parse_arguments([*NEEDED, *words]).service.max_wait_ms is None


def test_a_model_is_told_where_to_compute(monkeypatch):
    from msgspec.structs import replace
    from rpent_box_toy import backend

    portable = replace(backend.BACKEND, needs_gpu=True, variants=("cpu",))
    monkeypatch.setattr(backend, "BACKEND", portable)
    asked = {"cuda": [], "cpu": ["--device=cpu"]}
    for device, words in asked.items():
        arguments = parse_arguments([*NEEDED, *words])
        assert arguments.device == device
        told = replace(portable, load=lambda _options, context: context.device)
        assert serve._loader(replace(arguments, spec=told))(print) == device


def test_a_device_that_the_model_cannot_use_is_refused():
    with pytest.raises(BadOption, match="toy computes on the CPU only"):
        parse_arguments([*NEEDED, "--device=cuda"])
    with pytest.raises(BadOption, match="invalid choice"):
        parse_arguments([*NEEDED, "--device=tpu"])


def test_a_process_finds_its_box_beside_its_socket():
    words = ["toy", "--endpoint=ipc:///r/1a2b3c4d/sockets/worker.sock", "--platform=toy"]
    assert parse_arguments([*words, "--box=1a2b3c4d"]).box.room == Path("/r/1a2b3c4d")


def test_help_lists_the_backends_own_options_unprefixed():
    text = parse_arguments(["toy", "--help"])
    assert "toy's own options" in text
    assert "--load-delay-s" in text
    assert "Seconds that loading takes." in text
    assert "--max-wait-ms" in text


def test_help_without_a_backend_names_those_that_are_here():
    assert "toy" in parse_arguments(["--help"])


@pytest.mark.parametrize(
    ("words", "error", "match"),
    [
        ([], UsageError, "which backend"),
        (["--endpoint=ipc:///tmp/w"], UsageError, "comes first"),
        (["no-such-model"], UnknownName, "no backend called no-such-model"),
        (["toy", "--platform=toy"], BadOption, "--endpoint"),
        ([*NEEDED, "--wings=2"], BadOption, "unrecognized arguments: --wings=2"),
        ([*NEEDED, "--threads=0"], BadOption, "0 is no number of 1 or more"),
        ([*NEEDED, "--max-batch=many"], BadOption, "max-batch: many is no number"),
        ([*NEEDED, "--max-wait-ms=nan"], BadOption, "not a duration"),
        ([*NEEDED, "--drain-s=soon"], BadOption, "drain-s: soon is not a duration"),
        ([*NEEDED, "--session-idle-s=-1"], BadOption, "not a duration"),
        ([*NEEDED, "--noise=loud"], BadOption, "cannot be used"),
        ([*NEEDED, "--box=../../etc"], UsageError, "not a box id"),
        (["toy", "--endpoint=http://x", "--platform=toy"], UsageError, "not an endpoint"),
        (["toy", "--endpoint=ipc:///w", "--platform=mars"], BadOption, "no adapter for .* mars"),
    ],
)
def test_wrong_usage_is_told_in_words(words, error, match):
    with pytest.raises(error, match=match):
        parse_arguments(words)


def test_what_nobody_expected_ends_with_1_and_its_traceback(monkeypatch, capsys):
    monkeypatch.setattr(serve, "parse_arguments", lambda _: 1 / 0)
    assert serve.main(["toy"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
