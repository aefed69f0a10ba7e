# SPDX-License-Identifier: Apache-2.0
"""A host program to be killed: plays the `RunConfig` that it is given and says how it goes."""

from __future__ import annotations

import sys

import msgspec

from rpent_box.contracts.control_messages import EpisodePlayed, Progress, Restart
from rpent_box.evaluate.config import RunConfig
from rpent_box.evaluate.run import run_episodes


def _say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Teller:
    """Prints one line per event."""

    def on_launcher(self, name: str, why: str) -> None:
        _say("launcher", name)

    def on_phase(self, component: str, text: str) -> None:
        _say("phase", component, text)

    def on_progress(self, episode: int, progress: Progress) -> None:
        _say("progress", episode, progress.steps)

    def on_restart(self, episode: int, restart: Restart) -> None:
        _say("restart", episode, restart.why)

    def on_episode(self, played: EpisodePlayed) -> None:
        _say("episode", played.episode)


if __name__ == "__main__":
    run_episodes(msgspec.json.decode(sys.argv[1], type=RunConfig), Teller())
