# SPDX-License-Identifier: Apache-2.0
"""The same questions to every installed backend, for every platform that it has an adapter for.

Each is asked through a real worker and a real client. A backend that cannot load here is skipped
with its reason. `RPENT_BOX_CHECKPOINT_<NAME>` gives the weights of one that has none built in.
"""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from msgspec.structs import replace
from rpent_box_toy.backend import BACKEND as TOY
from running_service import running, wait_until

from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.fit import explain_mismatch
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.observation import Observation
from rpent_box.contracts.spaces import KNOWN_SPACES
from rpent_box.errors import (
    BadObservation,
    BadOption,
    DeadlineExceeded,
    UnknownName,
)
from rpent_box.plugins import backend_names, find_backend, find_platform
from rpent_box.worker.backend import BatchingBackend, LoadContext, PredictionInput
from rpent_box.worker.config import ServiceConfig
from rpent_box.worker.warm_up import blank_observation

SPECS = {TOY.name: TOY, **{name: find_backend(name) for name in backend_names()}}
PAIRS = [(name, platform) for name, spec in SPECS.items() for platform in spec.platforms]
FRAMEWORKS = ("torch", "onnxruntime", "jax", "tensorflow", "transformers")


class Subject:
    """One loaded backend behind a worker."""

    def __init__(self, spec, platform, backend, worker):
        self.spec = spec
        self.platform = platform
        self.backend = backend
        self.worker = worker

    def client(self, **more):
        return self.worker.client(**more)


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def subject(request):
    with served(*request.param) as subject:
        yield subject


@contextmanager
def served(name, platform):
    spec = SPECS[name]
    backend = load(spec, platform)
    config = ServiceConfig(drain_s=10.0, sweep_s=0.1)
    with running(backend, spec=spec, config=config) as worker:
        yield Subject(spec, platform, backend, worker)


def load(spec, platform):
    checkpoint = os.environ.get(f"RPENT_BOX_CHECKPOINT_{spec.name.upper().replace('-', '_')}")
    if spec.needs_checkpoint and checkpoint is None:
        pytest.skip(f"{spec.name} has no built-in weights and no checkpoint was given")
    if spec.needs_gpu and shutil.which("nvidia-smi") is None:
        pytest.skip(f"{spec.name} needs a GPU")
    context = LoadContext(platform=platform, checkpoint=checkpoint, threads=1, say=lambda _: None)
    try:
        return spec.load(spec.options(), context)
    except ImportError as error:
        pytest.skip(f"{spec.name}'s framework is not installed here: {error}")


def seen_by(subject, seed=0):
    """Frames of noise and a robot at rest, at the platform's own size where it is installed."""
    try:
        height, width = find_platform(subject.platform).meta.image_size
    except UnknownName:
        height, width = 256, 256
    rng = np.random.default_rng(seed)
    blank = blank_observation(subject.backend.meta, (height, width, 3))
    images = {
        role: rng.integers(0, 256, image.shape, np.uint8) for role, image in blank.images.items()
    }
    return Observation(images=images, proprio=blank.proprio, instruction=blank.instruction)


def key(chunk, seed=0):
    return EpisodeKey(seed=seed, suite="conformance", task=0, episode=1, chunk=chunk)


def test_its_meta_is_complete(subject):
    meta, spec = subject.client().meta, subject.spec
    assert (meta.backend, meta.kind) == (spec.name, spec.kind)
    assert meta.checkpoint
    assert 1 <= meta.execute_steps <= meta.action_horizon
    assert meta.camera_roles
    assert all(length >= 1 for length in meta.proprio_schema.values())
    assert meta.provenance, "where do the weights come from?"
    assert meta.prediction_timeout_s is None or meta.prediction_timeout_s > 0


def test_its_control_is_one_that_it_was_listed_with(subject):
    control = subject.client().meta.control
    assert control.action_space in subject.spec.action_spaces
    if control.action_space in KNOWN_SPACES:
        assert control == control_spec(KNOWN_SPACES[control.action_space])


def test_it_fits_the_platform_that_it_has_an_adapter_for(subject):
    try:
        platform = find_platform(subject.platform)
    except UnknownName:
        pytest.skip(f"the platform {subject.platform} is not installed here")
    assert explain_mismatch(subject.client().meta, platform.meta) == []


def test_its_options_all_have_defaults_and_say_what_they_are(subject):
    assert subject.spec.options() == subject.spec.options()
    assert subject.spec.summary


def test_its_declaration_imports_no_framework(subject):
    module = subject.spec.load.__module__
    code = f"import sys, {module}\nprint(sorted(set({FRAMEWORKS!r}) & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60
    )
    assert shown.stdout.strip() == "[]", shown.stderr


def test_a_chunk_is_finite_float32_of_the_promised_shape(subject):
    client = subject.client()
    client.reset()
    chunk = client.predict(seen_by(subject), episode=key(0))
    check_actions(chunk, client.meta)
    assert chunk.actions.shape == (client.meta.execute_steps, client.meta.control.action_dim)
    assert (chunk.future_observation is not None) == client.meta.returns_future_observation
    assert (chunk.value is not None) == client.meta.returns_value


def test_the_same_moment_of_the_same_episode_gives_the_same_actions(subject):
    client = subject.client()
    answers = []
    for _ in range(2):
        client.reset()
        answers.append(
            [client.predict(seen_by(subject, n), episode=key(n)).actions for n in range(3)]
        )
    np.testing.assert_array_equal(answers[0], answers[1])


def test_two_interleaving_clients_get_what_each_would_get_alone(subject):
    a, b = subject.client(), subject.client()
    alone = []
    for client, seed in ((a, 10), (b, 20)):
        client.reset()
        alone.append(
            [client.predict(seen_by(subject, seed + n), episode=key(n)).actions for n in range(3)]
        )
    a.reset()
    b.reset()
    together = [[], []]
    for n in range(3):
        for answers, client, seed in ((together[0], a, 10), (together[1], b, 20)):
            answers.append(client.predict(seen_by(subject, seed + n), episode=key(n)).actions)
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5)


def test_it_does_not_write_into_what_it_is_shown(subject):
    seen = seen_by(subject)
    for image in seen.images.values():
        image.flags.writeable = False
    for vector in seen.proprio.values():
        vector.flags.writeable = False
    before = {role: image.copy() for role, image in seen.images.items()}
    subject.client().reset()
    subject.client().predict(seen, episode=key(0))
    for role, image in seen.images.items():
        np.testing.assert_array_equal(image, before[role])


def test_bad_observations_are_refused_and_the_next_good_one_is_not(subject):
    client = subject.client()
    client.reset()
    for spoil in (_without_a_camera, _with_floats, _with_nan, _without_proprio):
        with pytest.raises(BadObservation):
            client.predict(spoil(seen_by(subject)))
    check_actions(client.predict(seen_by(subject), episode=key(0)), client.meta)


def test_a_batch_equals_one_by_one(subject):
    backend = subject.backend
    if not isinstance(backend, BatchingBackend):
        pytest.skip(f"{subject.spec.name} does not batch")
    # Not through the worker: the test itself decides what is in the batch. Nobody else asks now.
    requests = [
        PredictionInput(observation=seen_by(subject, n), session=f"batch-{n}", episode=key(n))
        for n in range(min(4, backend.meta.max_batch))
    ]
    answers = []
    for predict in (backend.predict_batch, lambda all_: [backend.predict(one) for one in all_]):
        for request in requests:
            backend.reset(request.session)
        answers.append([chunk.actions for chunk in predict(requests)])
    for request in requests:
        backend.drop(request.session)
    np.testing.assert_allclose(answers[0], answers[1], rtol=0, atol=1e-5)


def test_options_that_it_does_not_know_are_refused(subject):
    client = subject.client()
    with pytest.raises(BadOption):
        client.predict(seen_by(subject), options={"no_such_option_anywhere": 1})


def test_a_deadline_that_cannot_be_kept_is_an_error_and_no_harm(subject):
    hurried = subject.client(prediction_timeout_s=1e-6)
    with pytest.raises(DeadlineExceeded):
        hurried.predict(seen_by(subject), episode=key(0))
    patient = subject.client()
    patient.reset()
    check_actions(patient.predict(seen_by(subject), episode=key(0)), patient.meta)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def test_it_drains_and_closes(pair):
    with served(*pair) as subject:
        client = subject.client()
        client.reset()
        last = subject.worker.in_thread(lambda: client.predict(seen_by(subject), episode=key(0)))
        wait_until(lambda: subject.worker.health().served + subject.worker.health().in_flight > 0)
        subject.worker.service.drain("the test is over")
        check_actions(last(), client.meta)
        assert subject.worker.join(20.0) == 0
        subject.backend.close()


def _without_a_camera(seen):
    return replace(seen, images=dict(list(seen.images.items())[1:]))


def _with_floats(seen):
    return replace(seen, images={role: image / 255 for role, image in seen.images.items()})


def _with_nan(seen):
    return replace(
        seen, proprio={name: vector * np.float32(np.nan) for name, vector in seen.proprio.items()}
    )


def _without_proprio(seen):
    return replace(seen, proprio={})
