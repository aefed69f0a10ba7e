# SPDX-License-Identifier: Apache-2.0
"""kill -9 to any part of an evaluation, at any moment: what is finished is finished, once.

A short version always; `RPENT_BOX_KILLS=100` for the long one, `RPENT_BOX_KILLS_SEED` to repeat it.
"""

import os
import random
import sys
from pathlib import Path

import pytest
from eval_kills import Kills, numbers, wrong_files
from ray_nodes import ray_nodes
from rpent_box_toy.running import register_toy, short_folder

from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.evaluation import run_evaluation
from rpent_box.evaluate.scale.manifest import read_eval_manifest
from rpent_box.evaluate.scale.plan import key_of
from rpent_box.evaluate.scale.watcher import SilentEvalWatcher
from rpent_box.sim.results import read_results

KILLS = int(os.environ.get("RPENT_BOX_KILLS", "8"))
KILLS_ON_RAY = int(os.environ.get("RPENT_BOX_KILLS", "5"))
"""A sitting on a cluster takes seconds to start."""
SEED = int(os.environ.get("RPENT_BOX_KILLS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
TASKS = 3
"""Of the two suites."""
EPISODES = 5
"""Per task and seed."""
PER_KILL = 6
"""Episodes for each kill, so that there is something left to kill."""
STEP_S = 0.02


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    register_toy(monkeypatch)


@pytest.fixture
def folder():
    with short_folder() as made:
        yield made


def config_in(folder, *, kills, step_s, **changes):
    seeds = max(4, -(-kills * PER_KILL // (TASKS * EPISODES)))
    settings = {
        "backend": "toy",
        "platform": "toy",
        "suites": ("toy_easy", "toy_hard"),
        "episodes": EPISODES,
        "seeds": tuple(range(7, 7 + seeds)),
        "video": "none",
        "envs": 3,
        "launcher": "process",
        "python": sys.executable,
        "platform_python": sys.executable,
        "output_dir": str(folder / "runs"),
        "runtime_dir": str(folder / "boxes"),
        "start_timeout_s": 120.0,
        "backend_arguments": ("--noise", "0.3"),
        "platform_arguments": ("--step-delay-s", str(step_s)),
        **changes,
    }
    return EvalConfig(**settings)


def undisturbed(kills):
    with short_folder() as folder:
        config = config_in(folder, kills=kills, step_s=0.0)
        summary = run_evaluation(config, SilentEvalWatcher())
        return numbers(read_results(Path(summary.run_dir)))


def play_and_kill(folder, count, **more):
    """Play an evaluation to which all that happens, and look at what came of it."""
    config = config_in(folder, kills=count, step_s=STEP_S)
    kills = Kills(folder, config, count=count, seed=SEED, **more)
    run_dir = kills.play()
    rows, manifest = read_results(run_dir), read_eval_manifest(run_dir)
    told = kills.told()

    assert sum(kills.killed.values()) == count, told
    assert manifest.status == "complete", told
    keys = [key_of(row) for row in rows]
    assert sorted(keys) == sorted(job.key for job in manifest.plan.jobs()), told
    assert kills.violations() == [], told
    assert numbers(rows) == undisturbed(count), told
    assert wrong_files(run_dir, rows) == [], told
    assert kills.leaked() == [], told
    sessions = [session.number for session in manifest.sessions]
    assert sessions == list(range(len(sessions))), told
    # Whenever a sitting was killed, what it finished is known with the machine that did it.
    assert all(manifest.sessions[row.session].places for row in rows), told


@pytest.mark.timeout(120 + 20 * KILLS)
def test_whatever_is_killed_every_episode_is_played_once_and_is_what_it_would_have_been(folder):
    play_and_kill(folder, KILLS)


@pytest.mark.timeout(180 + 30 * KILLS_ON_RAY)
def test_so_it_is_when_some_sittings_are_on_a_cluster_whose_machines_are_lost(folder):
    pytest.importorskip("ray", reason="needs Ray: pip install 'rpent-box[ray]'")
    with ray_nodes(2) as nodes:
        play_and_kill(folder, KILLS_ON_RAY, nodes=nodes)
