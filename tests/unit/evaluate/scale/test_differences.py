# SPDX-License-Identifier: Apache-2.0
from msgspec.structs import replace
from rpent_box_toy.backend import META as MODEL
from rpent_box_toy.platform import META as PLATFORM

from rpent_box.contracts.checkpoint import CheckpointFile, CheckpointManifest
from rpent_box.evaluate.scale.differences import MOST_SHOWN, differences, in_lines
from rpent_box.sim.manifest import SimulatorFacts, WorkerFacts

SIMULATOR = SimulatorFacts(
    meta=PLATFORM, versions={"mujoco": "3.3.1", "numpy": "2"}, renderer="osmesa"
)
WORKER = WorkerFacts(meta=MODEL, rpent_box="0.1.0")


def lines(name, old, new):
    return [str(one) for one in differences(name, old, new)]


def test_equal_things_do_not_differ():
    assert lines("simulator", SIMULATOR, SIMULATOR) == []
    assert lines("images", {"a": "b"}, {"a": "b"}) == []


def test_every_field_that_differs_is_named_by_its_path():
    other = replace(
        SIMULATOR, versions={"mujoco": "3.4.0", "robosuite": "1.5"}, renderer="egl (H200)"
    )
    assert lines("simulator", SIMULATOR, other) == [
        "simulator.versions.mujoco: 3.3.1 → 3.4.0",
        "simulator.versions.numpy: 2 → not there",
        "simulator.versions.robosuite: not there → 1.5",
        "simulator.renderer: osmesa → egl (H200)",
    ]


def test_a_workers_device_its_threads_and_a_lists_length_are_seen():
    meta = replace(
        MODEL, provenance={**MODEL.provenance, "worker_threads": "2"}, camera_roles=("primary",)
    )
    assert lines("worker", WORKER, replace(WORKER, meta=meta)) == [
        'worker.meta.camera_roles: ["primary","wrist"] → ["primary"]',
        "worker.meta.provenance.worker_threads: not there → 2",
    ]


def test_the_file_that_changed_in_a_checkpoint_is_named():
    def manifest(*hashes):
        files = tuple(
            CheckpointFile(role="weights", path=f"{index}.pt", size=3, sha256=one)
            for index, one in enumerate(hashes)
        )
        return CheckpointManifest(backend="toy", platform="toy", checkpoint="c", files=files)

    assert lines("checkpoint", manifest("a", "b"), manifest("a", "c")) == [
        "checkpoint.files[1].sha256: b → c"
    ]


def test_nothing_false_and_empty_are_three_different_things():
    assert lines("x", {"a": None}, {"a": False}) == ["x.a: null → false"]
    assert lines("x", {"a": None}, {}) == ["x.a: null → not there"]
    assert lines("x", {"a": ""}, {"a": "b"}) == ['x.a: "" → b']
    assert lines("x", {"a": 1}, {"a": True}) == ["x.a: 1 → true"]


def test_a_secret_that_the_file_does_not_hold_is_no_difference():
    assert lines("x", {"a": ["--url=http://***@h"]}, {"a": ["--url=http://me:x@h"]}) == []


def test_many_differences_are_counted_and_not_all_shown():
    found = differences("x", {str(i): 0 for i in range(20)}, {str(i): 1 for i in range(20)})
    shown = in_lines(found).splitlines()
    assert len(shown) == MOST_SHOWN + 1
    assert shown[0] == "  x.0: 0 → 1"
    assert shown[-1] == f"  and {20 - MOST_SHOWN} more"
