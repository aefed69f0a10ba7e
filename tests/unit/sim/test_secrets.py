# SPDX-License-Identifier: Apache-2.0
import pytest

from rpent_box.sim.secrets import hide_secrets


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["--url", "https://anna:geheim@host:80/x"], ["--url", "https://***@host:80/x"]),
        (["--url=http://token@host"], ["--url=http://***@host"]),
        (["--url=ws://a:b@c@host/p@q"], ["--url=ws://***@host/p@q"]),
        (["http://h/p?a=1&api_key=s3&b=2"], ["http://h/p?a=1&api_key=***&b=2"]),
        (["http://h/p?X-Amz-Signature=s3#top"], ["http://h/p?X-Amz-Signature=***#top"]),
        (["--api-key", "s3", "--seed", "7"], ["--api-key", "***", "--seed", "7"]),
        (["--hf-token=s3"], ["--hf-token=***"]),
        (["--platform-option", "db_password=s3"], ["--platform-option", "db_password=***"]),
        (["--secret", "--verbose"], ["--secret", "--verbose"]),
    ],
)
def test_what_looks_like_a_secret_is_hidden(given, kept):
    assert hide_secrets(given) == kept
    assert hide_secrets(kept) == kept
    assert hide_secrets({"a": {"b": tuple(given)}}) == {"a": {"b": kept}}


@pytest.mark.parametrize(
    "words",
    [
        ["rpent-box", "eval", "--platform", "libero", "--seed", "7,8", "--envs", "auto"],
        ["--token-file", "/run/secret/token", "--tokenizer=/models/t", "--max-tokens", "7"],
        ["--endpoint", "ipc:///tmp/rpent-box-0/1a2b3c4d/sockets/worker.sock"],
        ["--endpoint", "tcp://127.0.0.1:5000", "--checkpoint", "/data/me@home/key=1"],
        ["http://host:80/v1?horizon=8", "see http://host/a?b=c and d@e"],
        ["", "-", "--", "=", "a b=c\nd"],
    ],
)
def test_what_is_no_secret_is_left_as_it_is(words):
    assert hide_secrets(words) == words


def test_what_is_no_text_is_left_as_it_is():
    value = {"a": [1, None, 2.5, True, ["x"], {}], "b": "plain"}
    assert hide_secrets(value) == value
