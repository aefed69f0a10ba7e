# SPDX-License-Identifier: Apache-2.0
"""The driver's side of one box, without a cluster: what it gives, holds, gives back and refuses."""

import threading
import types

import pytest
from eval_record_parts import played
from ray_parts import KNOWN, TWO

from rpent_box.contracts.control_messages import Progress
from rpent_box.errors import AssetsMissing, LaunchError, ProtocolMismatch
from rpent_box.evaluate.scale import ray_place
from rpent_box.evaluate.scale.events import Failed, Finished, Moved, Phase, WorkerLost
from rpent_box.evaluate.scale.plan import Job
from rpent_box.evaluate.scale.ray_cluster import RayMachine
from rpent_box.evaluate.scale.ray_executor import drop_those_in_trouble, play_on
from rpent_box.evaluate.scale.ray_messages import (
    Answer,
    Hello,
    News,
    NotPlayed,
    Trouble,
    read_job,
    to_bytes,
)
from rpent_box.evaluate.scale.ray_place import RayPlace
from rpent_box.evaluate.scale.schedule import Schedule
from rpent_box.version import PROTOCOL_VERSION, __version__


class RayError(Exception):
    """What Ray's errors descend from."""


class FakeRay:
    """Answers are put by the test, as bytes or as errors."""

    exceptions = types.SimpleNamespace(RayError=RayError)

    def __init__(self):
        self.answers = {}
        self.cancelled = []

    def get(self, reference):
        answer = self.answers[reference]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def cancel(self, reference):
        self.cancelled.append(reference)

    def wait(self, references, **_settings):
        return [], references


class FakeActor:
    """Numbers its calls."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        actor = self

        class Method:
            def options(self, **_settings):
                return self

            def remote(self, *arguments):
                actor.calls.append((name, arguments))
                return f"{name} {len(actor.calls)}"

        return Method()


def job(episode):
    return Job(episode=episode, suite="toy_easy", task=0, init_state=episode, seed=7, max_steps=40)


def failed(one):
    return Failed(simulator="node-0/0", job=one, code="simulator", message="broke")


def answer(outcome, life="a"):
    return Answer(life=life, outcome=outcome)


def hello(life="a", version=__version__):
    return Hello(life=life, host="hare", rpent_box=version, protocol=PROTOCOL_VERSION)


def news(*events, life="a", **more):
    return News(life=life, number=len(events), events=events, **more)


class Stage:
    """A place, its schedule of four jobs, and what it told."""

    def __init__(self, folder, *, away_s=60.0):
        self.ray, self.actor, self.told = FakeRay(), FakeActor(), []
        self.schedule = Schedule([job(n) for n in range(4)])
        self.place = RayPlace(
            self.ray,
            "node-0",
            self.actor,
            tell=self.told.append,
            logs=folder,
            needs="a machine with 2 CPUs",
            away_s=away_s,
        )

    def answer(self, message, reference=None):
        """Answer the question that is open, or the call `reference`."""
        if reference is None:
            (reference,) = [one for one in self.place.references() if "play" not in one]
        self.ray.answers[reference] = (
            to_bytes(message) if hasattr(message, "__struct_fields__") else message
        )
        self.place.answered(reference, self.schedule)

    def plays(self):
        """Return call → its job, of those that are out."""
        return {
            f"{name} {number}": read_job(arguments[0])
            for number, (name, arguments) in enumerate(self.actor.calls, start=1)
            if f"{name} {number}" in self.place.references() and name == "play"
        }

    def begin(self):
        self.answer(hello())
        self.answer(news(TWO, KNOWN))
        self.place.fill(self.schedule)


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


def test_jobs_are_given_once_it_is_known_what_plays_them(stage):
    stage.place.fill(stage.schedule)
    stage.answer(hello())
    stage.answer(news(TWO))
    stage.place.fill(stage.schedule)
    assert stage.plays() == {}
    stage.answer(news(KNOWN))
    stage.place.fill(stage.schedule)
    assert len(stage.plays()) == 2
    assert stage.schedule.waiting == 2
    stage.place.fill(stage.schedule)
    assert len(set(stage.plays().values())) == 2


def test_an_outcome_makes_room_for_the_next_job(stage):
    stage.begin()
    first, second = stage.plays()
    stage.answer(answer(failed(job(0))), first)
    assert stage.told[-1] == failed(job(0))
    stage.place.fill(stage.schedule)
    assert len(stage.plays()) == 2
    assert first not in stage.plays()
    assert second in stage.plays()


def test_an_outcome_waits_until_it_is_known_what_a_restarted_box_plays_with(stage):
    stage.begin()
    first, second = stage.plays()
    stage.answer(RayError("its node has died"))
    assert isinstance(stage.told[-1], WorkerLost)
    # Ray has repeated it on another machine, and its answer is the first that is heard of that.
    stage.answer(answer(failed(job(0)), life="b"), first)
    stage.answer(hello(life="b"))
    assert failed(job(0)) not in stage.told
    stage.answer(news(TWO, KNOWN, life="b"))
    assert stage.told[-2:] == [KNOWN, failed(job(0))]
    assert list(stage.plays()) == [second]


def test_nothing_is_told_of_a_box_that_was_lost_before_it_said_with_what_it_plays(stage):
    stage.begin()
    (first, one), (second, two) = stage.plays().items()
    stage.answer(RayError("its node has died"))
    stage.answer(answer(failed(one), life="b"), first)
    stage.answer(hello(life="b"))
    # And lost again; what Ray repeats is answered by a third one.
    stage.answer(RayError("its node has died"))
    stage.answer(answer(failed(two), life="c"), second)
    stage.answer(hello(life="c"))
    stage.answer(news(TWO, KNOWN, life="c"))
    assert failed(one) not in stage.told
    assert stage.told[-1] == failed(two)
    assert one not in stage.plays().values()
    assert stage.schedule.waiting == 3


def test_what_was_held_is_for_others_too_when_the_next_box_finds_no_room(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_place, "WAITS_S", 0.0)
    stage = Stage(tmp_path, away_s=0.0)
    stage.begin()
    out = stage.plays()
    stage.answer(RayError("its node has died"))
    for reference, one in out.items():
        stage.answer(answer(failed(one), life="b"), reference)
    stage.place.look(stage.schedule, others_are_idle=False)
    assert stage.schedule.waiting == 4


def test_a_box_that_was_out_of_reach_for_a_while_goes_on(stage):
    stage.begin()
    first = next(iter(stage.plays()))
    stage.answer(RayError("its node cannot be reached"))
    assert not stage.place.is_known
    stage.answer(hello())
    # It said with what it plays before, and does not say it again.
    assert stage.place.is_known
    stage.answer(answer(failed(job(0))), first)
    assert stage.told[-1] == failed(job(0))
    stage.place.fill(stage.schedule)
    assert len(stage.plays()) == 2


def test_a_restart_that_was_answered_for_by_the_next_box_is_noticed(stage):
    stage.begin()
    first = next(iter(stage.plays()))
    # Asked between the loss and the new one's start: Ray hands it to that, and reports no loss.
    stage.answer(answer(failed(job(0)), life="b"), first)
    stage.answer(News(life="b", number=0))
    assert isinstance(stage.told[-1], WorkerLost)
    assert not stage.place.is_known
    stage.answer(hello(life="b"))
    assert failed(job(0)) not in stage.told
    assert stage.schedule.waiting == 3


def test_a_box_that_is_lost_again_and_again_is_given_up(stage):
    for number in range(ray_place.MOST_LOSSES):
        assert stage.place.error is None
        stage.answer(hello(life=str(number)))
        stage.answer(RayError("the actor ran out of memory"))
    assert "10 times in a row" in stage.place.error.message
    assert list(stage.place.references()) == []
    with pytest.raises(LaunchError, match="10 times in a row"):
        drop_those_in_trouble([stage.place], stage.schedule)


def test_that_a_box_was_lost_is_heard_before_the_answers_of_the_next_one(stage):
    stage.begin()
    assert "news" in next(iter(stage.place.references()))


def test_an_answer_about_another_episode_or_with_a_path_is_refused(stage):
    stage.begin()
    (first, one), (second, two) = stage.plays().items()
    with pytest.raises(ProtocolMismatch, match="another episode"):
        stage.answer(answer(failed(two)), first)
    finished = Finished(simulator="node-0/1", job=two, played=played(two), files={"../x": b""})
    with pytest.raises(ProtocolMismatch, match="file named"):
        stage.answer(answer(finished), second)


def test_a_cluster_without_room_for_any_box_ends_the_evaluation_with_what_there_is(stage):
    hare = RayMachine(identifier="1", name="hare", cpus=2, gpus=0)
    cluster = types.SimpleNamespace(ray=stage.ray, machines=lambda: [hare])
    with pytest.raises(LaunchError, match=r"no room for 0 s.*hare \(2 CPUs, 0 GPUs\)") as caught:
        play_on(cluster, [stage.place], stage.schedule, threading.Event(), 0.0)
    assert "--start-timeout" in caught.value.hint


def test_a_box_that_is_somewhere_ends_the_waiting(stage):
    cluster = types.SimpleNamespace(ray=stage.ray, machines=list)
    stop = threading.Event()
    stage.answer(hello())
    threading.Timer(0.05, stop.set).start()
    play_on(cluster, [stage.place], stage.schedule, stop, 0.0)


def test_what_a_box_did_not_play_is_played_elsewhere(stage):
    stage.begin()
    stage.answer(answer(NotPlayed()), next(iter(stage.plays())))
    assert stage.schedule.waiting == 3


def test_a_box_that_finds_no_room_lets_others_play(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_place, "WAITS_S", 0.0)
    stage = Stage(tmp_path, away_s=0.0)
    stage.begin()
    out = list(stage.plays())
    stage.answer(RayError("its node has died"))
    stage.place.look(stage.schedule, others_are_idle=False)
    assert stage.ray.cancelled == out
    assert stage.schedule.waiting == 4
    assert stage.told[-1] == Phase(
        component="node-0 machine",
        text="waits for a machine with 2 CPUs; others may have its 2 episodes",
    )
    said = len(stage.told)
    stage.place.look(stage.schedule, others_are_idle=False)
    assert len(stage.told) == said


@pytest.mark.parametrize("idle", [True, False])
def test_it_waits_less_long_where_others_have_nothing_to_do(stage, monkeypatch, idle):
    monkeypatch.setattr(ray_place, "WAITS_S", 0.0)
    stage.begin()
    assert not stage.place.is_idle
    stage.answer(RayError("its node has died"))
    stage.place.look(stage.schedule, others_are_idle=idle)
    assert stage.schedule.waiting == (4 if idle else 2)
    assert not stage.place.is_idle


def test_a_result_that_is_lost_with_its_machine_is_played_again(stage):
    stage.begin()
    stage.answer(RayError("the object is lost"), next(iter(stage.plays())))
    assert stage.schedule.waiting == 3


def test_where_an_episode_stood_that_is_over_is_not_told(stage):
    stage.begin()
    (gone, over), (_, playing) = stage.plays().items()
    stage.answer(answer(failed(over)), gone)
    moved = [
        Moved(simulator="node-0/0", job=one, progress=Progress(phase="acting"))
        for one in (playing, over)
    ]
    stage.answer(news(*moved))
    assert stage.told[-2:] == [failed(over), moved[0]]


def test_another_version_is_refused_with_both_and_its_machine(stage):
    with pytest.raises(ProtocolMismatch, match=r"node-0 on hare has rpent-box 0\.0\.9") as caught:
        stage.answer(hello(version="0.0.9"))
    assert __version__ in caught.value.message


def test_an_actor_that_cannot_be_made_is_an_error_that_names_it(stage):
    stage.answer(RayError("The actor died\n  Traceback:\nModuleNotFoundError: No module rpent_box"))
    assert isinstance(stage.place.error, LaunchError)
    assert stage.place.error.message.endswith("ModuleNotFoundError: No module rpent_box")
    with pytest.raises(LaunchError, match="node-0"):
        drop_those_in_trouble([stage.place], stage.schedule)


def test_what_a_machine_lacks_at_the_start_ends_the_evaluation(stage, tmp_path):
    healthy = Stage(tmp_path)
    healthy.begin()
    stage.answer(hello())
    trouble = Trouble(code="assets_missing", message="no meshes", hint="fetch them")
    stage.answer(news(trouble=trouble, ended=True))
    with pytest.raises(AssetsMissing, match="node-0 on hare: no meshes"):
        drop_those_in_trouble([healthy.place, stage.place], stage.schedule)


def test_what_a_later_machine_lacks_costs_only_its_own_place(stage, tmp_path):
    other = Stage(tmp_path)
    other.begin()
    stage.begin()
    stage.answer(RayError("its node has died"))
    stage.answer(hello(life="b"))
    trouble = Trouble(code="assets_missing", message="no meshes")
    stage.answer(news(life="b", trouble=trouble, ended=True))
    places = [other.place, stage.place]
    drop_those_in_trouble(places, stage.schedule)
    assert stage.told[-1].text == "plays no more: node-0 on hare: no meshes"
    assert stage.schedule.waiting == 4
    stage.place.fill(stage.schedule)
    assert stage.schedule.waiting == 4
    # And when none is left, that is the end.
    other.place.error = LaunchError("another")
    with pytest.raises(LaunchError, match="another"):
        drop_those_in_trouble(places, stage.schedule)
