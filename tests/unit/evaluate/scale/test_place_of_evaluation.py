# SPDX-License-Identifier: Apache-2.0
import pytest
from eval_record_parts import JOBS, played

from rpent_box.contracts.control_messages import Restart
from rpent_box.evaluate.scale.place import spent_on

STAGES = {"simulate": 3.0, "render": 2.0, "transport": 0.1, "infer": 0.4, "other": 0.5}
RESTART = Restart(why="hung", reason="", phase="", step=0, silent_s=0, at="", log="")


def test_the_seconds_of_an_episode_add_up_to_what_the_host_waited():
    episode = played(JOBS[0], setup_s=1.0, video_s=0.25, stages_s=STAGES)
    spent = spent_on(episode, 8.0)
    assert spent == pytest.approx(
        {
            "resetting": 1.0,
            "simulate": 3.0,
            "render": 2.0,
            "predicting": 0.5,
            "video": 0.25,
            "other": 1.25,
        }
    )
    assert sum(spent.values()) == pytest.approx(8.0)


def test_attempts_before_are_lost_time():
    episode = played(JOBS[0], setup_s=1.0, stages_s=STAGES, restarts=(RESTART,))
    spent = spent_on(episode, 20.0)
    assert spent["lost"] == pytest.approx(13.0)
    assert spent["other"] == pytest.approx(0.5)
