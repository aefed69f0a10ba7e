# SPDX-License-Identifier: Apache-2.0
"""What runs on a machine of a cluster, where it finds nothing to play with."""

import time

import pytest

from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.plan import Job
from rpent_box.evaluate.scale.ray_messages import (
    Answer,
    Assignment,
    News,
    NotPlayed,
    read_answer,
    read_hello,
    read_news,
    to_bytes,
)
from rpent_box.evaluate.scale.ray_node import NodePlayer
from rpent_box.version import PROTOCOL_VERSION, __version__


@pytest.fixture
def lacking(tmp_path):
    """A player whose machine knows no such model; it has found that out."""
    config = EvalConfig(backend="nowhere", platform="nowhere", runtime_dir=str(tmp_path / "b"))
    player = NodePlayer(to_bytes(Assignment(place="node-0", config=config, cpus=1)))
    life = read_hello(player.hello()).life
    deadline = time.monotonic() + 20
    while not read_news(player.news(life, 0, 0.0)).ended and time.monotonic() < deadline:
        pass
    yield player
    assert player.end(5.0)


def test_it_says_who_it_is_and_what_it_lacks_and_plays_nothing(lacking):
    hello = read_hello(lacking.hello())
    assert (hello.rpent_box, hello.protocol) == (__version__, PROTOCOL_VERSION)
    news = read_news(lacking.news(hello.life, 0, 5.0))
    assert news.trouble is not None
    assert "nowhere" in news.trouble.message
    job = Job(episode=0, suite="toy_easy", task=0, init_state=0, seed=7, max_steps=9)
    answer = read_answer(lacking.play(to_bytes(job)))
    assert answer == Answer(life=hello.life, outcome=NotPlayed())


def test_what_was_asked_of_another_life_gets_only_the_name_of_this_one(lacking):
    life = read_hello(lacking.hello()).life
    assert read_news(lacking.news("another", 3, 5.0)) == News(life=life, number=0)
