# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys

import pytest

from rpent_box.backends.rldx import BACKEND
from rpent_box.backends.rldx.loading import prefix_lengths
from rpent_box.backends.rldx.options import OF_OUR_OWN_SERVER, RldxOptions, check_options
from rpent_box.backends.rldx.prediction_options import prefix_length
from rpent_box.errors import BadOption
from rpent_box.options import parse_options, path_fields

SERVICE = "tcp://10.0.0.7:5555"


def read(*words):
    return check_options(parse_options(RldxOptions, list(words), program="rldx"))


def test_the_defaults_are_sound():
    options = read()
    assert (options.service, options.execute_steps, options.rtc, options.memory) == (
        "",
        8,
        "none",
        True,
    )


def test_paths_among_the_options_reach_the_workers_container():
    assert path_fields(RldxOptions) == ["token_file", "hf_home"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--service", "10.0.0.7:5555"], "is no address"),
        (["--service", "ipc:///tmp/x.sock"], "is no address"),
        (["--service", SERVICE, "--no-memory", "--seed", "7"], "--memory, --seed"),
        (["--token-file", "/tmp/token"], "borrowed"),
        (["--rtc", "guided"], "contradict"),
        (["--rtc-delay", "2"], "contradict"),
        (["--rtc", "guided", "--rtc-delay", "9"], "more than --execute-steps 8"),
        (["--rtc", "guided", "--rtc-delay", "2", "--compile", "fullgraph"], "gradients"),
        (["--execute-steps", "0"], ">= 1"),
        (["--rtc", "sometimes"], "sometimes"),
        (["--timeout-s", "0"], "> 0"),
        (["--timeout-s", "inf"], "<= 86400"),
        (["--start-timeout-s", "nan"], "> 0"),
        (["--embodiment", "GR1"], "GR1"),
    ],
)
def test_options_that_cannot_be_used_are_refused(words, named):
    with pytest.raises(BadOption, match=named):
        read(*words)


def test_a_borrowed_server_takes_what_concerns_our_side():
    options = read(
        "--service", SERVICE, "--rtc", "trained", "--rtc-delay", "4", "--history", "predictions"
    )
    assert options.service == SERVICE
    assert set(OF_OUR_OWN_SERVER) <= set(RldxOptions.__struct_fields__)


def test_a_prefix_may_be_as_long_as_the_last_chunk_has_steps_left():
    def allowed(*words, horizon=16, longest=None):
        return prefix_lengths(read(*words), horizon, longest)

    guided = ("--rtc", "guided", "--rtc-delay", "2")
    trained = ("--rtc", "trained", "--rtc-delay", "2")
    assert allowed() is None
    assert allowed(*guided) == range(1, 9)
    assert allowed(*guided, "--execute-steps", "12") == range(1, 5)
    assert allowed(*guided, "--execute-steps", "4") == range(1, 5)
    assert allowed(*trained, longest=4) == range(1, 5)
    assert allowed(*guided, longest=0) == range(1, 9)
    assert allowed(*trained, "--compile", "fullgraph", longest=4) == range(2, 3)


def test_the_options_of_a_prediction_are_a_closed_set():
    assert prefix_length({}, None) is None
    assert prefix_length({"rtc_prefix_len": 3}, range(1, 9)) == 3
    for name in ("session_ids", "reset_memory", "action_prefix", "noise_seed", "temperature"):
        with pytest.raises(BadOption, match=f"knows no option {name}"):
            prefix_length({name: 1}, range(1, 9))


@pytest.mark.parametrize("length", [0, 9, -1, True, 2.0, "2"])
def test_a_prefix_of_an_impossible_length_is_refused(length):
    with pytest.raises(BadOption, match="from 1 to 8"):
        prefix_length({"rtc_prefix_len": length}, range(1, 9))


def test_a_prefix_that_would_have_no_effect_is_refused():
    with pytest.raises(BadOption, match="has no effect"):
        prefix_length({"rtc_prefix_len": 2}, None)


def test_the_spec_says_that_the_weights_are_not_for_commerce():
    assert BACKEND.non_commercial
    assert "NON-COMMERCIAL" in BACKEND.licence
    assert (BACKEND.borrows, BACKEND.python, BACKEND.kind) == ("service", "3.10", "vla")


def test_the_spec_and_its_inspection_import_no_framework():
    code = (
        "import sys, rpent_box.backends.rldx.spec, rpent_box.backends.rldx.checkpoint;"
        "assert not {'torch', 'transformers', 'msgpack', 'rldx'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
