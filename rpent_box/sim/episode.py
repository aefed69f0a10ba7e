# SPDX-License-Identifier: Apache-2.0
"""The episode loop: reset, then predict and apply, until the task is solved or the steps are spent.

It runs beside the simulator, so that an observation crosses one process border, once per chunk.
"""

from __future__ import annotations

import hashlib
import io
import logging
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
from msgspec import Struct

from rpent_box.contracts.control_messages import (
    VIDEO_PHASE,
    EpisodePlayed,
    PlayEpisode,
    Progress,
)
from rpent_box.contracts.messages import EpisodeKey, Payload
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk, Actions, Observation
from rpent_box.contracts.spaces import KNOWN_SPACES
from rpent_box.errors import BadOption, SimulatorError
from rpent_box.sim.foresight import Foresight
from rpent_box.sim.futures import FUTURES_FILE, Futures
from rpent_box.sim.overlay import Overlay
from rpent_box.sim.platform import Applied, Platform, Scene
from rpent_box.sim.results import write_atomically
from rpent_box.sim.stopwatch import Stopwatch
from rpent_box.sim.video import Finish, LastSeen, write_thumbnail, write_video

Say: TypeAlias = Callable[[Progress], None]

VIDEO_FPS = 10.0
"""Frames are drawn again for the video, and drawing is what takes the time."""

SAY_EVERY_FRAMES = 10

ACTIONS_FILE = "actions.npy"
VIDEO_FILE = "episode.mp4"
THUMBNAIL_FILE = "episode.jpg"

_log = logging.getLogger("rpent_box.sim")


class Policy(Protocol):
    """What the loop needs of `rpent_box.client.ModelClient`."""

    @property
    def meta(self) -> ModelMeta: ...

    @property
    def seen(self) -> Payload | None:
        """Where the frames of the last prediction are, for onlookers."""

    def predict(
        self, observation: Observation, *, episode: EpisodeKey | None = None
    ) -> ActionChunk:
        """Return a chunk that was checked: finite float32 [execute_steps, action_dim]."""

    def reset(self) -> None:
        """Forget the last episode."""


def play_episode(platform: Platform, policy: Policy, play: PlayEpisode, say: Say) -> EpisodePlayed:
    """Play one episode to its end, save its actions, the model's future frames, a video if asked.

    Raises `BadOption` when `play` cannot be played with this policy, whatever the policy raises,
    and `SimulatorError` when the platform breaks its protocol. A video that cannot be written is
    no error: the result says why it is missing; nor is a thumbnail.
    """
    execute_steps = _execute_steps(play, policy.meta)
    _require_predictions(play, policy.meta)
    output = Path(play.output_dir)
    _clear(output)
    began = time.monotonic()
    say(Progress(phase="resetting", max_steps=play.max_steps))
    observation = platform.reset(_scene(play))
    say(Progress(phase="resetting the model", max_steps=play.max_steps))
    policy.reset()
    setup_s = time.monotonic() - began

    first_frames = frames_sha256(observation)
    acted = _act(platform, policy, play, observation, execute_steps, say)
    write_atomically(output / ACTIONS_FILE, _as_npy(acted.actions))
    futures = acted.futures.save(output)
    finish = _finish(platform, policy, acted) if play.show_predictions else None
    recorded = _record(platform, play, success=acted.success, finish=finish, say=say)
    return EpisodePlayed(
        suite=play.suite,
        task=play.task,
        init_state=play.init_state,
        episode=play.episode,
        seed=play.seed,
        instruction=observation.instruction,
        success=acted.success,
        steps=len(acted.actions),
        predictions=acted.predictions,
        execute_steps=execute_steps,
        max_steps=play.max_steps,
        wall_s=acted.wall_s,
        setup_s=setup_s,
        stages_s=acted.stages_s,
        actions_sha256=actions_sha256(acted.actions),
        first_frames_sha256=first_frames,
        values=acted.given_values,
        expected_db=acted.foresight.expected_db,
        copied_db=acted.foresight.copied_db,
        remarks=dict(acted.remarks),
        futures=futures,
        video=recorded.video,
        video_s=recorded.seconds,
        video_error=recorded.error,
        thumbnail=recorded.thumbnail,
    )


def actions_sha256(actions: Actions) -> str:
    """Return the hash of float32 [steps, action_dim] actions in C order, little-endian."""
    return hashlib.sha256(np.ascontiguousarray(actions, dtype="<f4").tobytes()).hexdigest()


def frames_sha256(observation: Observation) -> str:
    """Return the hash of an observation's images, roles in sorted order."""
    digest = hashlib.sha256()
    for role in sorted(observation.images):
        digest.update(np.ascontiguousarray(observation.images[role]).tobytes())
    return digest.hexdigest()


class _Acted:
    """What the loop has gathered so far."""

    def __init__(self, action_dim: int) -> None:
        self.rows: list[Actions] = []
        self.values: list[float | None] = []
        self.futures = Futures()
        self.foresight = Foresight()
        self.steps = 0
        self.predictions = 0
        self.success = False
        self.wall_s = 0.0
        self.stages_s: dict[str, float] = {}
        self.remarks: Counter[str] = Counter()
        self._action_dim = action_dim

    @property
    def actions(self) -> Actions:
        """float32 [steps, action_dim], as executed."""
        if not self.rows:
            return np.zeros((0, self._action_dim), dtype=np.float32)
        return np.concatenate(self.rows)

    @property
    def given_values(self) -> tuple[float | None, ...]:
        """One per prediction; empty when the model gave none."""
        return tuple(self.values) if any(value is not None for value in self.values) else ()

    def predicted(self, chunk: ActionChunk, observation: Observation) -> None:
        self.values.append(chunk.value)
        self.futures.add(self.steps, chunk.future_observation)
        self.foresight.predicted(self.steps, chunk, observation)

    def add(self, executed: Actions, *, success: bool) -> None:
        self.rows.append(np.array(executed, dtype=np.float32))
        self.steps += len(executed)
        self.predictions += 1
        self.success = success


def _act(
    platform: Platform,
    policy: Policy,
    play: PlayEpisode,
    observation: Observation,
    execute_steps: int,
    say: Say,
) -> _Acted:
    acted = _Acted(policy.meta.control.action_dim)
    watch = Stopwatch()
    while not acted.success and acted.steps < play.max_steps:
        # Whose turn it is decides how long the host waits for the next sign of progress.
        say(_progress("predicting", play, acted))
        key = _episode_key(play, chunk=acted.predictions)
        asked = time.monotonic()
        chunk = policy.predict(observation, episode=key)
        watch.add_prediction(time.monotonic() - asked, chunk.timings_s)
        acted.predicted(chunk, observation)
        # The last chunk is cut, so that the step limit is the same whatever the chunk size.
        actions = chunk.actions[: min(execute_steps, play.max_steps - acted.steps)]
        say(_progress("acting", play, acted, seen=policy.seen))
        applied = _checked(platform.apply(actions), given=len(actions))
        watch.add_applied(applied.simulate_s, applied.render_s)
        acted.add(actions[: applied.steps], success=applied.success)
        acted.remarks.update(applied.remarks)
        if applied.observation is not None:
            observation = applied.observation
            acted.foresight.came(acted.steps, observation)
    acted.wall_s, acted.stages_s = watch.stop()
    say(_progress("acting", play, acted, seen=policy.seen))
    return acted


def _progress(
    phase: str, play: PlayEpisode, acted: _Acted, *, seen: Payload | None = None
) -> Progress:
    return Progress(
        phase=phase,
        steps=acted.steps,
        max_steps=play.max_steps,
        success=acted.success,
        seen=seen,
    )


def _checked(applied: Applied, *, given: int) -> Applied:
    """Refuse an answer that would make the loop spin or show the model an old frame."""
    if applied.success and 1 <= applied.steps <= given:
        return applied
    if not applied.success and applied.steps == given and applied.observation is not None:
        return applied
    shown = "no observation" if applied.observation is None else "an observation"
    raise SimulatorError(
        f"the platform executed {applied.steps} of {given} steps, success {applied.success}, and "
        f"returned {shown}; wanted every step and an observation, unless the task was solved"
    )


def _execute_steps(play: PlayEpisode, meta: ModelMeta) -> int:
    if play.max_steps < 1:
        raise BadOption(f"an episode of {play.max_steps} steps cannot be played; wanted 1 or more")
    if play.execute_steps is None:
        return meta.execute_steps
    if not 1 <= play.execute_steps <= meta.execute_steps:
        raise BadOption(
            f"{play.execute_steps} execute steps were asked for; "
            f"{meta.backend} returns {meta.execute_steps} at a time",
            hint=f"Choose --execute-steps from 1 to {meta.execute_steps}.",
        )
    return play.execute_steps


def _require_predictions(play: PlayEpisode, meta: ModelMeta) -> None:
    """Refuse to show what the model will not tell, before anything is played."""
    if play.show_predictions and not (meta.returns_future_observation or meta.returns_value):
        raise BadOption(
            f"{meta.backend} returns neither future frames nor a value: there are no predictions "
            "to be shown",
            hint="Leave --show-predictions out; or, if the model has that option, ask it for them: "
            "--predict-future.",
        )


def _finish(platform: Platform, policy: Policy, acted: _Acted) -> Finish | None:
    """Return what draws the episode's predictions; None where frames cannot be told from steps."""
    space = KNOWN_SPACES.get(policy.meta.control.action_space)
    if space is None:
        _log.warning(
            "no predictions in the video: the control rate of %s is not known",
            policy.meta.control.action_space,
        )
        return None
    return Overlay(
        acted.foresight,
        steps=acted.steps,
        roles=platform.meta.camera_roles,
        fps=VIDEO_FPS,
        control_hz=space.control_hz,
    ).draw


def _scene(play: PlayEpisode) -> Scene:
    return Scene(suite=play.suite, task=play.task, init_state=play.init_state, seed=play.seed)


def _episode_key(play: PlayEpisode, *, chunk: int) -> EpisodeKey:
    # Keyed by init state, not by place in the run: an episode played alone gets the same noise.
    return EpisodeKey(
        seed=play.seed, suite=play.suite, task=play.task, episode=play.init_state, chunk=chunk
    )


def _clear(output: Path) -> None:
    """Remove what an earlier attempt at the episode has left: its simulator was killed in it.

    Here and not on the host: only once this one plays is it certain that the other writes no more.
    """
    for name in (ACTIONS_FILE, FUTURES_FILE, VIDEO_FILE, THUMBNAIL_FILE, ".*.partial"):
        for left in output.glob(name):
            left.unlink(missing_ok=True)


def _as_npy(actions: Actions) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(actions, dtype="<f4"), allow_pickle=False)
    return buffer.getvalue()


class _Recorded(Struct, frozen=True, kw_only=True):
    """What was written to be looked at; nothing at all when no video was asked for."""

    video: str | None = None
    thumbnail: str | None = None
    seconds: float = 0.0
    error: str = ""
    """Why there is no video."""


def _record(
    platform: Platform, play: PlayEpisode, *, success: bool, finish: Finish | None, say: Say
) -> _Recorded:
    if play.video == "none" or (play.video == "failures" and success):
        return _Recorded()
    began = time.monotonic()
    path = Path(play.output_dir) / VIDEO_FILE
    say(Progress(phase=VIDEO_PHASE, max_steps=play.max_steps, success=success))

    def on_frame(count: int) -> None:
        # A sign of life: a long episode takes a minute to draw.
        if count % SAY_EVERY_FRAMES == 0:
            say(Progress(phase=VIDEO_PHASE, steps=count, success=success))

    try:
        frames = LastSeen(platform.replay(VIDEO_FPS))
        write_video(
            frames,
            path,
            fps=VIDEO_FPS,
            roles=platform.meta.camera_roles,
            finish=finish,
            on_frame=on_frame,
        )
    except Exception as error:  # noqa: BLE001 - a renderer or a codec; the result must survive it
        return _Recorded(seconds=time.monotonic() - began, error=f"{type(error).__name__}: {error}")
    thumbnail = _thumbnail(platform, frames, path.with_name(THUMBNAIL_FILE))
    return _Recorded(video=path.name, thumbnail=thumbnail, seconds=time.monotonic() - began)


def _thumbnail(platform: Platform, frames: LastSeen, path: Path) -> str | None:
    """Write the video's last frame; return its file name, or None when it cannot be written."""
    if frames.images is None:
        return None
    try:
        write_thumbnail(frames.images, path, roles=platform.meta.camera_roles)
    except Exception as error:  # noqa: BLE001 - a codec; the result must survive it
        _log.warning("no thumbnail: %s: %s", type(error).__name__, error)
        return None
    return path.name
