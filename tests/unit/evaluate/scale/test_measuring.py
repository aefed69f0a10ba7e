# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import time

import pytest

from rpent_box.evaluate.scale.measuring import (
    ProcessTable,
    free_memory,
    this_machine,
    usable_cores,
)

MIB = 1 << 20
MEMINFO = "MemTotal: 9000 kB\nMemAvailable: 4096 kB\n"


def fake_proc(tmp_path, cgroup):
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(cgroup)
    (proc / "meminfo").write_text(MEMINFO)
    return proc


def written(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_this_machine_has_cores_and_memory():
    machine = this_machine()
    assert 0 < machine.cores <= len(os.sched_getaffinity(0))
    assert machine.memory > 16 * MIB


@pytest.mark.parametrize(
    ("quota", "cores"), [("50000 100000\n", 0.5), ("max 100000\n", None), ("99900000 1000", None)]
)
def test_a_quota_of_a_group_above_limits_the_cores(tmp_path, quota, cores):
    proc, groups = fake_proc(tmp_path, "0::/outer/inner\n"), tmp_path / "cgroup"
    written(groups / "outer", cpu__max=quota)
    written(groups / "outer" / "inner", cpu__max="max 100000")
    wanted = len(os.sched_getaffinity(0)) if cores is None else cores
    assert usable_cores(proc, groups) == wanted


def test_version_1_of_cgroups_says_it_in_other_files(tmp_path):
    proc, groups = fake_proc(tmp_path, "3:cpu,cpuacct:/box\n2:memory:/box\n"), tmp_path / "cgroup"
    written(groups / "cpu", cpu__cfs_quota_us="25000", cpu__cfs_period_us="100000")
    written(
        groups / "memory" / "box",
        memory__limit_in_bytes=str(2 * MIB),
        memory__usage_in_bytes=str(MIB),
        memory__stat="cache 5\ntotal_inactive_file 1024\n",
    )
    assert usable_cores(proc, groups) == 0.25
    assert free_memory(proc, groups) == MIB + 1024


def test_memory_is_what_the_machine_or_a_limit_leaves(tmp_path):
    proc, groups = fake_proc(tmp_path, "0::/\n"), tmp_path / "cgroup"
    assert free_memory(proc, groups) == 4 * MIB
    written(groups, memory__max=str(3 * MIB), memory__current=str(2 * MIB))
    assert free_memory(proc, groups) == MIB
    written(groups, memory__max="max")
    assert free_memory(proc, groups) == 4 * MIB
    written(groups, memory__max=str(MIB))
    assert free_memory(proc, groups) == 0


CHILD = "x = bytearray(40 << 20)\nimport time\nwhile True: sum(range(1000))"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


def test_a_programs_descendants_count_with_it():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], start_new_session=True)
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            table = ProcessTable()
            if table.cpu_s(parent.pid) > 0.3 and table.memory(parent.pid) > 40 * MIB:
                break
            time.sleep(0.1)
        assert len(table.tree(parent.pid)) == 2
        assert table.cpu_s(parent.pid) > 0.3
        assert 40 * MIB < table.memory(parent.pid) < 200 * MIB
    finally:
        os.killpg(parent.pid, 9)
        parent.wait(10)
    assert ProcessTable().tree(parent.pid) == []
    assert ProcessTable().idle_s >= table.idle_s > 0
    assert table.cpu_s(1 << 30) == 0
