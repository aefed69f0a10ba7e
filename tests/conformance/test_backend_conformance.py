# SPDX-License-Identifier: Apache-2.0
"""The same questions to every installed backend, for every platform that it has an adapter for.

Each is asked through a real worker and a real client. A backend whose weights are not here is asked
through its fake: its own class and adapters around a model that is none, of the module
`<name>_fake` in tests/support. `RPENT_BOX_CHECKPOINT_<NAME>` gives real weights instead.
"""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from msgspec.structs import replace
from running_service import wait_until
from subjects import FAKED, PAIRS, SPECS, key, name_of, seen_by, served

from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.fit import explain_mismatch
from rpent_box.contracts.spaces import KNOWN_SPACES
from rpent_box.errors import (
    BadCheckpoint,
    BadObservation,
    BadOption,
    DeadlineExceeded,
    SessionGone,
    UnknownName,
)
from rpent_box.plugins import find_platform
from rpent_box.worker.backend import BatchingBackend, PredictionInput

FRAMEWORKS = ("torch", "onnxruntime", "jax", "tensorflow", "transformers")
OF_FILES = [
    pair
    for pair in FAKED
    if SPECS[pair[0]].inspect is not None and SPECS[pair[0]].checkpoint_is == "path"
]
IDLE_S = 3.0
"""Much longer than a busy machine keeps a client from speaking."""


@pytest.fixture(scope="module", params=PAIRS, ids=name_of)
def subject(request):
    with served(*request.param) as subject:
        yield subject


def test_its_meta_is_complete(subject):
    meta, spec = subject.client().meta, subject.spec
    assert (meta.backend, meta.kind) == (spec.name, spec.kind)
    assert meta.checkpoint
    assert 1 <= meta.execute_steps <= meta.action_horizon
    assert meta.camera_roles
    assert all(length >= 1 for length in meta.proprio_schema.values())
    assert meta.provenance, "where do the weights come from?"
    assert meta.prediction_timeout_s is None or meta.prediction_timeout_s > 0
    assert meta.max_batch == 1 or isinstance(subject.backend, BatchingBackend)


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
    code = f"import sys, {subject.spec.load.__module__}\nprint({_frameworks()})"
    shown = _python(code)
    assert shown.stdout.strip() == "[]", shown.stderr


@pytest.mark.parametrize("pair", OF_FILES, ids=name_of)
def test_what_is_no_checkpoint_is_refused_without_a_framework(pair, tmp_path):
    name, platform = pair
    with pytest.raises(BadCheckpoint):
        SPECS[name].inspect(SPECS[name].options(), tmp_path, platform)
    with pytest.raises(BadCheckpoint):
        SPECS[name].inspect(SPECS[name].options(), tmp_path / "nowhere", platform)
    code = (
        "import sys\nfrom pathlib import Path\nfrom rpent_box.errors import BadCheckpoint\n"
        f"from rpent_box.plugins import find_backend\nspec = find_backend({name!r})\n"
        f"try:\n    spec.inspect(spec.options(), Path({str(tmp_path)!r}), {platform!r})\n"
        f"except BadCheckpoint:\n    print({_frameworks()})"
    )
    shown = _python(code)
    assert shown.stdout.strip() == "[]", shown.stderr


def test_a_checkpoint_of_files_can_be_looked_at(subject):
    spec = subject.spec
    needs_files = spec.needs_checkpoint and spec.checkpoint_is == "path"
    assert spec.inspect is not None or not needs_files


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
    alone = [_chunks(subject, client, seed) for client, seed in ((a, 10), (b, 20))]
    a.reset()
    b.reset()
    together = [[], []]
    for n in range(3):
        for answers, client, seed in ((together[0], a, 10), (together[1], b, 20)):
            answers.append(client.predict(seen_by(subject, seed + n), episode=key(n)).actions)
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5)


def test_a_client_that_resets_or_leaves_changes_nothing_for_another(subject):
    stays, goes = subject.client(), subject.client()
    alone = _chunks(subject, stays, 30)
    stays.reset()
    disturbed = []
    for n, disturb in enumerate((goes.reset, lambda: _chunks(subject, goes, 40), goes.close)):
        disturbed.append(stays.predict(seen_by(subject, 30 + n), episode=key(n)).actions)
        disturb()
    np.testing.assert_allclose(disturbed, alone, rtol=0, atol=1e-5)


def test_what_it_remembers_is_seen_and_a_reset_forgets_it(subject):
    client = subject.client()
    if not client.meta.uses_sessions:
        pytest.skip(f"{subject.spec.name} remembers nothing")
    shown, moment = seen_by(subject), key(0)
    client.reset()
    first, second = (client.predict(shown, episode=moment).actions for _ in range(2))
    client.reset()
    again = client.predict(shown, episode=moment).actions
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("pair", PAIRS, ids=name_of)
def test_a_client_that_falls_silent_is_forgotten_and_no_other(pair):
    with served(*pair, session_idle_s=IDLE_S) as subject:
        silent, busy = subject.client("silent"), subject.client("busy")
        if not silent.meta.uses_sessions:
            pytest.skip(f"{subject.spec.name} remembers nothing")
        for client in (silent, busy):
            client.reset()
        silent.predict(seen_by(subject), episode=key(0))
        chunks = []
        dropped = []
        drop = subject.backend.drop
        subject.backend.drop = lambda session: (dropped.append(session), drop(session))

        def silent_is_gone():
            n = len(chunks)
            chunks.append(busy.predict(seen_by(subject, n), episode=key(n)).actions)
            time.sleep(IDLE_S / 10)
            return bool(dropped)

        wait_until(silent_is_gone)
        assert len(dropped) == 1
        with pytest.raises(SessionGone):
            silent.predict(seen_by(subject), episode=key(1))
        alone = _chunks(subject, busy, 0, len(chunks))
        np.testing.assert_allclose(chunks, alone, rtol=0, atol=1e-5)


def test_it_does_not_write_into_what_it_is_shown(subject):
    seen = seen_by(subject)
    for shown in (*seen.images.values(), *seen.proprio.values()):
        shown.flags.writeable = False
    request = PredictionInput(observation=seen, session="read-only", episode=key(0))
    # Not through the worker, which has read-only views of its own. Nobody else asks now.
    subject.backend.reset(request.session)
    check_actions(subject.backend.predict(request), subject.backend.meta)
    subject.backend.drop(request.session)


def test_bad_observations_are_refused_and_the_next_good_one_is_not(subject):
    client = subject.client()
    client.reset()
    for spoil in BAD_IMAGES + (BAD_PROPRIO if client.meta.proprio_schema else ()):
        with pytest.raises(BadObservation):
            client.predict(spoil(seen_by(subject)))
    check_actions(client.predict(seen_by(subject), episode=key(0)), client.meta)


@pytest.mark.parametrize("size", [(240, 320), (96, 48), (64, 64), (1, 1), (512, 512)], ids=str)
def test_frames_of_any_size_are_served_or_refused_in_words(subject, size):
    client = subject.client()
    client.reset()
    for shown in (seen_by(subject, size=size), _with_one_camera_of(seen_by(subject), size)):
        try:
            check_actions(client.predict(shown, episode=key(0)), client.meta)
        except BadObservation as refused:
            assert f"{size[0]}" in refused.message  # noqa: PT017 - either outcome is right
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
    if backend.meta.batch_invariant:
        assert np.array_equal(answers[0], answers[1])


def test_a_batch_shows_in_no_bit_unless_an_option_asked_for_batches(subject):
    """The subjects have default options."""
    assert subject.client().meta.batch_invariant


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


@pytest.mark.parametrize("pair", PAIRS, ids=name_of)
def test_it_drains_and_closes(pair):
    with served(*pair) as subject:
        client = subject.client()
        client.reset()
        last = subject.worker.in_thread(lambda: client.predict(seen_by(subject), episode=key(0)))
        wait_until(lambda: subject.worker.figures().served + subject.worker.health().in_flight > 0)
        subject.worker.service.drain("the test is over")
        check_actions(last(), client.meta)
        assert subject.worker.join(20.0) == 0
        subject.backend.close()


def _chunks(subject, client, seed, count=3):
    client.reset()
    return [
        client.predict(seen_by(subject, seed + n), episode=key(n)).actions for n in range(count)
    ]


def _frameworks():
    return f"sorted(set({FRAMEWORKS!r}) & set(sys.modules))"


def _python(code):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60
    )


def _with_one_camera_of(seen, size):
    role = next(iter(seen.images))
    return replace(seen, images={**seen.images, role: np.full((*size, 3), 90, np.uint8)})


def _with_images(change):
    return lambda seen: replace(
        seen, images={role: change(image) for role, image in seen.images.items()}
    )


def _with_proprio(change):
    return lambda seen: replace(
        seen, proprio={name: change(vector) for name, vector in seen.proprio.items()}
    )


def _without_a_camera(seen):
    return replace(seen, images=dict(list(seen.images.items())[1:]))


BAD_IMAGES = (
    _without_a_camera,
    _with_images(lambda image: image / 255),
    _with_images(lambda image: image[:, :, 0]),
    _with_images(lambda image: np.concatenate([image, image[:, :, :1]], 2)),
    _with_images(lambda image: image[::-1]),
    _with_images(lambda image: image[:0]),
)
BAD_PROPRIO = (
    _with_proprio(lambda vector: vector * np.float32(np.nan)),
    _with_proprio(lambda vector: vector.astype(np.float64)),
    _with_proprio(lambda vector: vector[:-1]),
    lambda seen: replace(seen, proprio={}),
)
