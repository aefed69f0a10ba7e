# SPDX-License-Identifier: Apache-2.0
import hashlib

import numpy as np
import pytest
from msgspec.structs import replace
from rpent_box_toy.backend import EXECUTE_STEPS, ToyBackend, ToyBackendOptions
from rpent_box_toy.platform import ToyOptions, ToyPlatform

from rpent_box.contracts.control_messages import PlayEpisode
from rpent_box.contracts.messages import Payload, SlotRef
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.errors import BadActions, BadOption, PeerGone, SimulatorError
from rpent_box.sim.episode import actions_sha256, play_episode
from rpent_box.sim.platform import Applied, Scene
from rpent_box.sim.stopwatch import STAGES
from rpent_box.worker.backend import PredictionInput

TOY_SPACE = ToyBackend(ToyBackendOptions()).meta.control.action_space


class InProcessPolicy:
    """The toy backend without a worker in between; remembers what it was asked."""

    seen = None

    def __init__(self, **options):
        self._backend = ToyBackend(ToyBackendOptions(**options))
        self.meta = self._backend.meta
        self.keys = []
        self.resets = 0

    def predict(self, observation, *, episode=None):
        self.keys.append(episode)
        request = PredictionInput(observation=observation, session="s", episode=episode)
        return self._backend.predict(request)

    def reset(self):
        self.resets += 1


class RecordingPlatform(ToyPlatform):
    """Remembers the actions that it was given."""

    def __init__(self, options):
        super().__init__(options)
        self.given = []

    def apply(self, actions):
        self.given.append(np.array(actions))
        return super().apply(actions)


@pytest.fixture
def platform():
    return RecordingPlatform(ToyOptions())


@pytest.fixture
def play(tmp_path):
    return PlayEpisode(
        suite="toy_easy",
        task=0,
        init_state=2,
        episode=5,
        seed=7,
        max_steps=40,
        output_dir=str(tmp_path),
    )


def _scene(play):
    return Scene(suite=play.suite, task=play.task, init_state=play.init_state, seed=play.seed)


def silent(_progress):
    """Listen to nothing."""


class RemarkingPlatform(ToyPlatform):
    """Has something to say of every chunk."""

    def apply(self, actions):
        applied = super().apply(actions)
        return replace(applied, remarks={"windy": applied.steps, "late": 1})


def test_what_the_platform_remarks_on_is_added_up(play):
    played = play_episode(RemarkingPlatform(ToyOptions()), InProcessPolicy(), play, silent)
    assert played.remarks == {"windy": played.steps, "late": played.predictions}


def test_a_good_policy_solves_the_task_and_every_executed_action_is_saved(platform, play, tmp_path):
    played = play_episode(platform, InProcessPolicy(), play, silent)
    saved = np.load(tmp_path / "actions.npy", allow_pickle=False)
    assert played.success
    assert saved.shape == (played.steps, 2)
    assert saved.dtype == np.float32
    executed = np.concatenate(platform.given)[: played.steps]
    assert np.array_equal(saved, executed)
    assert played.actions_sha256 == hashlib.sha256(saved.tobytes()).hexdigest()
    assert played.predictions == len(platform.given)
    assert played.instruction == "go to the goal"


def test_the_last_chunk_is_cut_at_the_step_limit(platform, play):
    played = play_episode(
        platform, InProcessPolicy(), replace(play, suite="toy_hard", max_steps=10), silent
    )
    assert [len(actions) for actions in platform.given] == [4, 4, 2]
    assert (played.success, played.steps, played.max_steps) == (False, 10, 10)


def test_only_the_execute_steps_of_a_chunk_are_executed(platform, play):
    played = play_episode(
        platform,
        InProcessPolicy(),
        replace(play, suite="toy_hard", max_steps=6, execute_steps=3),
        silent,
    )
    assert [len(actions) for actions in platform.given] == [3, 3]
    assert played.execute_steps == 3


@pytest.mark.parametrize("wanted", [0, EXECUTE_STEPS + 1])
def test_execute_steps_outside_the_chunk_are_refused_before_the_reset(platform, play, wanted):
    policy = InProcessPolicy()
    with pytest.raises(BadOption, match=f"{wanted} execute steps"):
        play_episode(platform, policy, replace(play, execute_steps=wanted), silent)
    assert policy.resets == 0
    assert platform.given == []


def test_each_prediction_is_keyed_by_seed_init_state_and_chunk(platform, play):
    policy = InProcessPolicy()
    play_episode(platform, policy, play, silent)
    keys = [(key.seed, key.suite, key.task, key.episode, key.chunk) for key in policy.keys]
    assert keys == [(7, "toy_easy", 0, 2, chunk) for chunk in range(len(keys))]
    assert policy.resets == 1


def test_an_episode_is_the_same_alone_or_after_others(platform, play, tmp_path):
    policy = InProcessPolicy(noise=0.3)
    alone = play_episode(platform, policy, play, silent)
    play_episode(platform, policy, replace(play, init_state=4), silent)
    again = play_episode(platform, policy, replace(play, episode=9), silent)
    assert again.actions_sha256 == alone.actions_sha256
    assert again.first_frames_sha256 == alone.first_frames_sha256


def test_another_seed_gives_another_episode(platform, play):
    policy = InProcessPolicy()
    first = play_episode(platform, policy, play, silent)
    other = play_episode(platform, policy, replace(play, seed=8), silent)
    assert first.actions_sha256 != other.actions_sha256
    assert first.first_frames_sha256 != other.first_frames_sha256


def test_the_stages_account_for_the_acting_time(play):
    slow = ToyPlatform(ToyOptions(step_delay_s=0.002))
    played = play_episode(slow, InProcessPolicy(), play, silent)
    assert tuple(played.stages_s) == STAGES
    assert sum(played.stages_s.values()) == pytest.approx(played.wall_s, abs=1e-3)
    assert played.stages_s["simulate"] >= 0.002 * played.steps


def test_progress_tells_whose_turn_it_is_and_how_far_the_episode_is(platform, play):
    told = []
    played = play_episode(platform, InProcessPolicy(), play, told.append)
    turns = ["predicting", "acting"] * played.predictions
    assert [progress.phase for progress in told] == [
        "resetting",
        "resetting the model",
        *turns,
        "acting",
    ]
    steps = [progress.steps for progress in told]
    assert steps == sorted(steps)
    assert steps[-1] == played.steps
    assert told[-1].success
    assert not told[-2].success


def test_the_turn_is_told_before_it_begins(platform, play):
    told = []
    policy = InProcessPolicy()
    seen = {}

    def looking_first(what, call):
        def looked(*words, **more):
            seen.setdefault(what, told[-1].phase)
            return call(*words, **more)

        return looked

    platform.reset = looking_first("reset", platform.reset)
    platform.apply = looking_first("apply", platform.apply)
    policy.reset = looking_first("reset of the model", policy.reset)
    policy.predict = looking_first("predict", policy.predict)
    play_episode(platform, policy, play, told.append)
    assert seen == {
        "reset": "resetting",
        "reset of the model": "resetting the model",
        "predict": "predicting",
        "apply": "acting",
    }


@pytest.mark.parametrize(
    ("video", "suite", "wanted"),
    [
        ("all", "toy_easy", True),
        ("none", "toy_easy", False),
        ("failures", "toy_easy", False),
        ("failures", "toy_hard", True),
    ],
)
def test_a_video_is_asked_for_by_outcome(platform, play, monkeypatch, video, suite, wanted):
    written = []
    monkeypatch.setattr(
        "rpent_box.sim.episode.write_video", lambda *_, **__: written.append(1) or 1
    )
    played = play_episode(
        platform, InProcessPolicy(), replace(play, suite=suite, video=video), silent
    )
    assert bool(written) == wanted
    assert played.video == ("episode.mp4" if wanted else None)


def test_a_broken_video_costs_no_result(play, tmp_path):
    platform = ToyPlatform(ToyOptions(breaks="replay"))
    played = play_episode(platform, InProcessPolicy(), replace(play, video="all"), silent)
    assert played.success
    assert played.video is None
    assert played.video_error
    assert not list(tmp_path.glob("*.mp4"))
    assert (tmp_path / "actions.npy").exists()


def film(frames, path, **_):
    """Stand in for the encoder: look at every frame."""
    path.write_bytes(b"film")
    return len(list(frames))


def test_the_last_frame_of_a_video_is_kept_as_a_thumbnail(play, tmp_path, monkeypatch):
    shown = []

    def write(images, path, *, roles):
        shown.append((images, roles))
        path.touch()

    monkeypatch.setattr("rpent_box.sim.episode.write_video", film)
    monkeypatch.setattr("rpent_box.sim.episode.write_thumbnail", write)
    platform = ToyPlatform(ToyOptions())
    played = play_episode(platform, InProcessPolicy(), replace(play, video="all"), silent)
    assert (played.video, played.thumbnail, played.video_error) == (
        *("episode.mp4", "episode.jpg", ""),
    )
    ((images, roles),) = shown
    assert roles == platform.meta.camera_roles
    *_, last = platform.replay(10.0)
    assert all(np.array_equal(images[role], last[role]) for role in last)


def test_a_broken_thumbnail_costs_neither_result_nor_video(play, monkeypatch, caplog):
    def fail(*_, **__):
        raise RuntimeError("no such codec")

    monkeypatch.setattr("rpent_box.sim.episode.write_video", film)
    monkeypatch.setattr("rpent_box.sim.episode.write_thumbnail", fail)
    platform = ToyPlatform(ToyOptions())
    played = play_episode(platform, InProcessPolicy(), replace(play, video="all"), silent)
    assert (played.video, played.thumbnail, played.video_error) == ("episode.mp4", None, "")
    assert "no thumbnail: RuntimeError: no such codec" in caplog.text


def test_without_a_video_there_is_no_thumbnail(play):
    played = play_episode(ToyPlatform(ToyOptions()), InProcessPolicy(), play, silent)
    assert played.thumbnail is None


def test_an_attempt_keeps_nothing_of_the_one_before_it(play, tmp_path):
    names = ("actions.npy", "futures.npz", "episode.mp4", "episode.jpg")
    for left in (*names, ".episode.mp4.4711.partial"):
        (tmp_path / left).write_text("of a simulator that was killed")
    (tmp_path / "notes.txt").touch()
    played = play_episode(ToyPlatform(ToyOptions()), InProcessPolicy(), play, silent)
    assert (played.futures, played.video) == (None, None)
    assert {path.name for path in tmp_path.iterdir()} == {"actions.npy", "notes.txt"}
    assert len(np.load(tmp_path / "actions.npy")) == played.steps


def test_an_attempt_that_is_lost_at_once_has_nothing_of_the_one_before_it(play, tmp_path):
    (tmp_path / "actions.npy").write_text("of a simulator that was killed")
    with pytest.raises(RuntimeError, match="broke at reset"):
        play_episode(ToyPlatform(ToyOptions(breaks="reset")), InProcessPolicy(), play, silent)
    assert list(tmp_path.iterdir()) == []


def test_what_the_policy_raises_ends_the_episode_and_nothing_more_is_executed(platform, play):
    policy = InProcessPolicy()

    def gone(observation, *, episode=None):
        raise PeerGone("the worker has ended")

    policy.predict = gone
    with pytest.raises(PeerGone):
        play_episode(platform, policy, play, silent)
    assert platform.given == []


@pytest.mark.parametrize(
    "answer",
    [
        Applied(steps=0, success=False, observation=None, simulate_s=0, render_s=0),
        Applied(steps=4, success=False, observation=None, simulate_s=0, render_s=0),
        Applied(steps=9, success=True, observation=None, simulate_s=0, render_s=0),
    ],
)
def test_a_platform_that_breaks_its_protocol_is_an_error_and_no_endless_loop(
    platform, play, answer
):
    platform.apply = lambda actions: answer
    with pytest.raises(SimulatorError, match=f"executed {answer.steps} of 4 steps"):
        play_episode(platform, InProcessPolicy(), play, silent)


def test_the_hash_of_actions_does_not_depend_on_their_layout():
    actions = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert actions_sha256(np.asfortranarray(actions)) == actions_sha256(actions)


class Foreseeing(InProcessPolicy):
    """Expects frames of one brightness, a value that rises, and what a test changes in them."""

    def __init__(self, *changes):
        super().__init__()
        self._changes = dict(changes)

    def predict(self, observation, *, episode=None):
        chunk = super().predict(observation, episode=episode)
        now = {
            "future_observation": {"primary": np.full((8, 8, 3), episode.chunk, np.uint8)},
            "value": episode.chunk / 4,
        }
        return replace(chunk, **{**now, **self._changes.get(episode.chunk, {})})


def test_what_a_model_foresees_is_kept_beside_what_happened(platform, play, tmp_path):
    hard = replace(play, suite="toy_hard", max_steps=10)
    no_value = (1, {"value": None})
    played = play_episode(platform, Foreseeing(no_value), hard, silent)
    assert played.values == (0.0, None, 0.5)
    kept = np.load(tmp_path / played.futures)
    assert kept["step_primary"].tolist() == [0, 4, 8]
    assert kept["future_primary"].shape == (3, 8, 8, 3)
    assert kept["future_primary"][:, 0, 0, 0].tolist() == [0, 1, 2]


def test_what_was_expected_is_measured_against_what_came(platform, play):
    hard = replace(play, suite="toy_hard", max_steps=10)
    right = {"future_observation": {"primary": platform.reset(_scene(hard)).images["primary"]}}
    played = play_episode(platform, Foreseeing(), hard, silent)
    # Black frames against a picture, in which little moves.
    assert played.expected_db < played.copied_db < 30
    still = ToyPlatform(ToyOptions())
    still.apply = lambda actions: Applied(
        steps=len(actions),
        success=False,
        observation=still.reset(_scene(hard)),
        simulate_s=0,
        render_s=0,
    )
    played = play_episode(still, Foreseeing((0, right), (1, right), (2, right)), hard, silent)
    assert (played.expected_db, played.copied_db) == (100.0, 100.0)


def test_predictions_are_drawn_into_the_video_only_when_asked_for(play, monkeypatch):
    finished = []

    def draw(frames, path, *, finish, **_):
        finished.append(finish)
        return film(frames, path)

    monkeypatch.setattr("rpent_box.sim.episode.write_video", draw)
    monkeypatch.setattr("rpent_box.sim.episode.KNOWN_SPACES", {TOY_SPACE: LIBERO_OSC_DELTA})
    policy = Foreseeing()
    policy.meta = replace(policy.meta, returns_value=True)
    asked = replace(play, video="all")
    for shown in (True, False):
        play_episode(
            ToyPlatform(ToyOptions()), policy, replace(asked, show_predictions=shown), silent
        )
    with_predictions, without = finished
    assert without is None
    images = {"primary": np.zeros((64, 64, 3), np.uint8)}
    picture = with_predictions(0, images, images["primary"])
    assert picture.shape[0] > 2 * 64
    assert picture.shape[1] == 2 * 64


def test_predictions_that_cannot_be_told_in_time_leave_a_plain_video(play, monkeypatch, caplog):
    monkeypatch.setattr("rpent_box.sim.episode.write_video", film)
    policy = Foreseeing()
    policy.meta = replace(policy.meta, returns_value=True)
    asked = replace(play, video="all", show_predictions=True)
    played = play_episode(ToyPlatform(ToyOptions()), policy, asked, silent)
    assert (played.video, played.video_error) == ("episode.mp4", "")
    assert f"the control rate of {TOY_SPACE} is not known" in caplog.text


def test_a_model_that_tells_nothing_has_no_predictions_to_be_shown(platform, play):
    with pytest.raises(BadOption, match="returns neither future frames nor a value") as error:
        play_episode(
            platform, InProcessPolicy(), replace(play, video="all", show_predictions=True), silent
        )
    assert "--predict-future" in error.value.hint
    assert platform.given == []


def test_a_model_that_foresees_nothing_leaves_no_file(platform, play, tmp_path):
    played = play_episode(platform, InProcessPolicy(), play, silent)
    assert (played.values, played.futures) == ((), None)
    assert (played.expected_db, played.copied_db) == (None, None)
    assert not (tmp_path / "futures.npz").exists()


def test_future_frames_that_change_their_size_are_refused_before_they_are_acted_upon(
    platform, play
):
    smaller = (1, {"future_observation": {"primary": np.zeros((4, 8, 3), np.uint8)}})
    with pytest.raises(BadActions, match=r"future primary is \[4, 8, 3\] at step 4"):
        play_episode(
            platform, Foreseeing(smaller), replace(play, suite="toy_hard", max_steps=10), silent
        )
    assert len(platform.given) == 1


class Watched(InProcessPolicy):
    """A policy whose frames can be looked at: each prediction's are in another slot."""

    @property
    def seen(self):
        slot = SlotRef(segment="/rpent-box.0123abcd.sim-0", slot=0, sequence=2 * len(self.keys))
        return Payload(slot=slot) if self.keys else None


def test_while_it_acts_it_says_where_the_frames_are_that_the_model_has_just_seen(platform, play):
    told = []
    played = play_episode(platform, Watched(), play, told.append)
    assert all(progress.seen is None for progress in told if progress.phase != "acting")
    sequences = [progress.seen.slot.sequence for progress in told if progress.phase == "acting"]
    each = [2 * number for number in range(1, played.predictions + 1)]
    assert sequences == [*each, each[-1]], "the last one is of the episode's end"
