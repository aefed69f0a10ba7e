# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest
from fabricated_runs import CHECKPOINT, HOST, fabricate_evaluation, fabricate_run, session_of
from msgspec.structs import replace

from rpent_box.report.load import load_folder
from rpent_box.report.setup import differences, setup_of
from rpent_box.sim.gpus import GpuFacts

LISTS = [
    ("platform", "decides"),
    ("threads", "decides"),
    ("worker.meta.control.action_space", "decides"),
    ("worker.meta.provenance.weights_sha256", "decides"),
    ("checkpoint.sha256.weights", "decides"),
    ("simulator.versions.mujoco", "decides"),
    ("simulator.renderer", "decides"),
    ("seed_rule", "decides"),
    ("worker.meta.max_batch", "may"),
    ("host.cpu", "may"),
    ("host.git_revision", "may"),
    ("worker.meta.prediction_timeout_s", "how"),
    ("launcher", "how"),
    ("simulators", "how"),
]


@pytest.mark.parametrize(("path", "kind"), LISTS)
def test_a_fact_is_of_the_kind_that_it_is(tmp_path, path, kind):
    setup = load_folder(fabricate_evaluation(tmp_path, "a")).setup
    assert path in setup.of(kind)


def test_every_fact_of_worker_and_simulator_is_there(tmp_path):
    folder = load_folder(fabricate_evaluation(tmp_path, "a"))
    every = {**folder.setup.deciding, **folder.setup.may, **folder.setup.how}
    simulator = folder.manifest.simulator
    for name, version in simulator.versions.items():
        assert every[f"simulator.versions.{name}"] == version
    worker = msgspec.to_builtins(folder.manifest.worker.meta)
    for field, value in worker.items():
        said = [path for path in every if path.startswith(f"worker.meta.{field}")]
        assert said or value in (None, "", {}, [], ()), field


def test_where_a_checkpoint_lay_decides_nothing_and_its_bytes_do(tmp_path):
    folder = load_folder(fabricate_evaluation(tmp_path, "a"))
    (file,) = CHECKPOINT.files
    moved = replace(CHECKPOINT, files=(replace(file, path="/elsewhere/model.safetensors"),))
    changed = replace(CHECKPOINT, files=(replace(file, sha256="00" * 32),))
    same = setup_of(replace(folder.manifest, checkpoint=moved))
    assert differences(folder.setup, same) == []
    (other,) = differences(folder.setup, setup_of(replace(folder.manifest, checkpoint=changed)))
    assert (other.path, other.b) == ("checkpoint.sha256.weights", "00" * 32)


def test_every_machine_is_named_and_its_gpus(tmp_path):
    session = session_of([])
    gpu = GpuFacts(name="NVIDIA H200", uuid="GPU-1", driver="570.1")
    two = (
        replace(session.places[0], name="node-0"),
        replace(session.places[0], name="node-1", host=replace(HOST, gpus=(gpu,))),
    )
    path = fabricate_evaluation(tmp_path, "a", sessions=(replace(session, places=two),))
    may = load_folder(path).setup.may
    assert may["host.cpu"] == may["host_2.cpu"] == "AMD EPYC 9454"
    assert may["host_2.gpus[0].name"] == "NVIDIA H200"


def test_secrets_of_older_files_are_hidden(tmp_path):
    folder = load_folder(fabricate_run(tmp_path, "a"))
    plan = replace(
        folder.manifest.plan,
        endpoint="tcp://me:word@host:1",
        backend_arguments=("--api-key", "sesame", "--horizon", "8"),
    )
    setup = setup_of(replace(folder.manifest, plan=plan))
    assert "sesame" not in setup.deciding["backend_arguments"]
    assert setup.deciding["backend_arguments"].endswith("--horizon, 8")
    assert "word" not in setup.how["endpoint"]


def test_what_only_one_says_is_a_difference(tmp_path):
    folder = load_folder(fabricate_run(tmp_path, "a"))
    bare = setup_of(replace(folder.manifest, worker=None))
    found = differences(folder.setup, bare)
    assert all(one.b is None for one in found)
    assert "worker.meta.backend" in [one.path for one in found]
