# SPDX-License-Identifier: Apache-2.0
"""What travels through a cluster is msgspec's bytes, and says so when it is not understood."""

import pytest

from rpent_box.contracts.control_messages import EpisodePlayed
from rpent_box.errors import EnvironmentMissing, ProtocolMismatch
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.events import Failed, Finished, Phase
from rpent_box.evaluate.scale.plan import Job
from rpent_box.evaluate.scale.ray_messages import (
    Answer,
    Assignment,
    News,
    NotPlayed,
    error_of,
    read_answer,
    read_assignment,
    read_hello,
    read_job,
    read_news,
    to_bytes,
    trouble_of,
)

JOB = Job(episode=3, suite="toy_easy", task=1, init_state=2, seed=7, max_steps=40)
PLAYED = EpisodePlayed(
    suite="toy_easy",
    task=1,
    init_state=2,
    episode=3,
    seed=7,
    instruction="go to the goal",
    success=True,
    steps=9,
    predictions=3,
    execute_steps=4,
    max_steps=40,
    wall_s=1.0,
    setup_s=0.1,
    stages_s={"simulate": 0.5},
    actions_sha256="0" * 64,
    first_frames_sha256="1" * 64,
)


def test_jobs_outcomes_and_news_come_back_as_they_were():
    finished = Finished(
        simulator="node-0/1", job=JOB, played=PLAYED, files={"actions.npy": b"\x00\xff"}
    )
    failed = Failed(simulator="node-0/1", job=JOB, code="simulator", message="broke")
    for outcome in (finished, failed, NotPlayed()):
        answer = Answer(life="ab", outcome=outcome)
        assert read_answer(to_bytes(answer)) == answer
    assert read_job(to_bytes(JOB)) == JOB
    news = News(
        life="ab",
        number=4,
        events=(Phase(component="node-0 worker", text="ready"), failed),
        logs={"worker.log": b"\xff"},
        ended=True,
    )
    assert read_news(to_bytes(news)) == news
    config = EvalConfig(backend="toy", platform="toy", tasks=(0, "reach"), seeds=(1, 2))
    assignment = Assignment(place="node-0", config=config, cpus=4)
    assert read_assignment(to_bytes(assignment)) == assignment


def test_an_error_arrives_as_what_it_is_with_its_machine_before_it():
    error = EnvironmentMissing("no environment", hint="rpent-box build toy", detail="lines")
    there = error_of(trouble_of(error), "node-1 on hare")
    assert type(there) is EnvironmentMissing
    assert (there.message, there.hint) == ("node-1 on hare: no environment", "rpent-box build toy")
    assert there.detail == "lines"


@pytest.mark.parametrize("read", [read_hello, read_news, read_answer, read_job])
def test_what_is_not_understood_is_another_version(read):
    with pytest.raises(ProtocolMismatch, match="a machine of the cluster sent no"):
        read(b"\x81\xa1x\x01")
