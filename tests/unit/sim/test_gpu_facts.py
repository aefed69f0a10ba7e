# SPDX-License-Identifier: Apache-2.0
import time

from rpent_box.sim import gpus
from rpent_box.sim.gpus import GpuFacts, gpu_facts, parse_gpus
from rpent_box.sim.manifest import host_facts

TABLE = """\
NVIDIA H200, GPU-0a1b2c3d-0000-1111-2222-333344445555, 570.86.15
Some GPU, with a comma, GPU-9, 570.86.15

NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver, oh, well
"""
KNOWN = (
    GpuFacts(
        name="NVIDIA H200", uuid="GPU-0a1b2c3d-0000-1111-2222-333344445555", driver="570.86.15"
    ),
    GpuFacts(name="Some GPU, with a comma", uuid="GPU-9", driver="570.86.15"),
)


def command(tmp_path, monkeypatch, text):
    script = tmp_path / "nvidia-smi"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    monkeypatch.setattr(gpus, "QUERY", (str(script),))


def test_the_drivers_table_is_read_and_what_is_no_gpu_is_not():
    assert parse_gpus(TABLE) == KNOWN


def test_a_machines_gpus_are_among_what_is_said_of_it(tmp_path, monkeypatch):
    (tmp_path / "table").write_text(TABLE)
    command(tmp_path, monkeypatch, f"cat {tmp_path}/table")
    assert host_facts().gpus == KNOWN


def test_a_machine_without_a_driver_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "QUERY", (str(tmp_path / "nothing"),))
    assert gpu_facts() == ()
    command(tmp_path, monkeypatch, "exit 9")
    assert gpu_facts() == ()


def test_a_driver_that_does_not_answer_is_not_waited_for(tmp_path, monkeypatch):
    command(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(gpus, "TIMEOUT_S", 0.2)
    began = time.monotonic()
    assert gpu_facts() == ()
    assert time.monotonic() - began < 10
