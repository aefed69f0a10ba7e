# SPDX-License-Identifier: Apache-2.0
"""A server of ours: started from a checkpoint, asked, and ended with the worker."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from lingbot_checkpoint import write_checkpoint
from msgspec.structs import replace

from rpent_box.backends.lingbot.model import load
from rpent_box.backends.lingbot.options import LingbotOptions
from rpent_box.backends.lingbot.server import SeededPolicy
from rpent_box.backends.noise import noise_seed
from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.errors import BadCheckpoint, ProgramDied, StartTimeout
from rpent_box.worker.backend import LoadContext, PredictionInput
from rpent_box.worker.warm_up import blank_observation

SUPPORT = Path(__file__).resolve().parents[3] / "support/lingbot"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(SUPPORT), str(SUPPORT / "fake_package"))))
    return write_checkpoint(tmp_path / "ckpt1500")


def loaded(folder, *, said=None, **options):
    context = LoadContext(
        platform="robotwin",
        checkpoint=str(folder),
        threads=1,
        say=(said if said is not None else []).append,
    )
    return load(LingbotOptions(start_timeout_s=30.0, **options), context)


def asked(backend, *, instruction="stack the blocks", chunk=0):
    shown = replace(blank_observation(backend.meta, (48, 64, 3)), instruction=instruction)
    episode = EpisodeKey(seed=1, suite="robotwin", task=2, episode=3, chunk=chunk)
    return PredictionInput(observation=shown, session="a", episode=episode)


def children():
    return Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()


def test_it_is_started_asked_and_ended(folder):
    before = children()
    said = []
    backend = loaded(folder, said=said, execute_steps=25)
    try:
        assert len(children()) == len(before) + 1
        assert (backend.meta.checkpoint, backend.meta.action_horizon) == ("ckpt1500", 50)
        assert backend.meta.provenance["normalisation"] == "bounds_99"
        backend.reset("a")
        first, second, again = (backend.predict(asked(backend, chunk=n)) for n in (0, 1, 0))
        check_actions(first, backend.meta)
        assert first.metadata == {"noise_seed": noise_seed(42, asked(backend).episode)}
        np.testing.assert_array_equal(first.actions, again.actions)
        assert np.abs(first.actions - second.actions).max() > 1e-3
    finally:
        backend.close()
    backend.close()
    assert children() == before
    assert said[0] == "checking the checkpoint"
    assert said[-1] == "connecting"


def test_it_is_given_the_checkpoint_s_parts(folder, caplog):
    caplog.set_level("INFO", logger="rpent_box.service")
    loaded(folder).close()
    assert f"Qwen is at {folder}/qwen_base" in caplog.text
    given = "['num_denoising_step', 'robot_config', 'robot_norm_path', 'use_length']"
    assert f"loading {folder} with {given}" in caplog.text


def test_its_death_while_loading_is_told_with_its_last_lines(folder):
    (folder / "dies.txt").touch()
    before = children()
    with pytest.raises(ProgramDied, match="the LingBot server ended with exit code 1") as caught:
        loaded(folder)
    assert "CUDA driver version is insufficient" in caught.value.detail
    assert children() == before


def test_its_death_while_it_is_asked_is_told_with_its_last_lines(folder):
    backend = loaded(folder)
    try:
        with pytest.raises(ProgramDied) as caught:
            backend.predict(asked(backend, instruction="crash"))
        assert "an illegal memory access was encountered" in caught.value.detail
        with pytest.raises(ProgramDied):
            backend.predict(asked(backend))
    finally:
        backend.close()


def test_one_that_is_not_ready_in_time_is_ended(folder):
    before = children()
    context = LoadContext(
        platform="robotwin", checkpoint=str(folder), threads=1, say=lambda _: None
    )
    with pytest.raises(StartTimeout, match="the LingBot server"):
        load(LingbotOptions(start_timeout_s=0.05), context)
    deadline = time.monotonic() + 5.0
    while children() != before:
        assert time.monotonic() < deadline


def test_a_bad_checkpoint_is_refused_before_it_is_started(folder):
    (folder / "lingbotvla_cli.yaml").unlink()
    before = children()
    with pytest.raises(BadCheckpoint):
        loaded(folder)
    assert children() == before


class Recorder:
    def __init__(self):
        self.seen = []

    def infer(self, observation):
        self.seen.append((observation, np.random.random()))
        return {"action": None}


def test_only_a_question_with_a_seed_seeds_and_the_model_never_sees_it():
    recorder, seeds = Recorder(), []
    policy = SeededPolicy(recorder, seeds.append)
    for question in ({"task": "a", "seed": 5}, {"task": "b"}, {"task": "c", "seed": 5}):
        assert policy.infer(question) == {"action": None}
    assert seeds == [5, 5]
    assert [observation for observation, _ in recorder.seen] == [{"task": one} for one in "abc"]
    drawn = [noise for _, noise in recorder.seen]
    assert drawn[0] == drawn[2] != drawn[1]
