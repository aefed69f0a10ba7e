# SPDX-License-Identifier: Apache-2.0
import pytest

from rpent_box.evaluate.scale.pinning import cpusets, physical_cores

EIGHT = [(0, 8), (1, 9), (2, 10), (3, 11), (4, 12), (5, 13), (6, 14), (7, 15)]


def test_threads_of_one_core_are_found_and_others_left_out(tmp_path):
    for cpu, siblings in {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}.items():
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings + "\n")
    assert physical_cores({0, 1, 2, 3}, tmp_path) == [(0, 2), (1, 3)]
    assert physical_cores({1, 2}, tmp_path) == [(1,), (2,)]
    assert physical_cores({0, 5}, tmp_path / "nowhere") == [(0,), (5,)]


@pytest.mark.parametrize(
    ("count", "spare", "wanted"),
    [
        # Enough for the worker too: its core is left alone.
        (7, 1, EIGHT[1:]),
        (3, 2, [(2, 10, 3, 11), (4, 12, 5, 13), (6, 14, 7, 15)]),
        # Without the worker's core there are too few.
        (8, 1, EIGHT),
        (4, 0, [(0, 8, 1, 9), (2, 10, 3, 11), (4, 12, 5, 13), (6, 14, 7, 15)]),
        # Not a core each, but a thread each.
        (9, 0, [(0,), (8,), (1,), (9,), (2,), (10,), (3,), (11,), (4,)]),
        # Too many: the kernel does better.
        (17, 0, [()] * 17),
    ],
)
def test_each_gets_cores_of_its_own_while_there_are_enough(count, spare, wanted):
    assert list(cpusets(count, EIGHT, spare=spare)) == wanted


def test_no_two_simulators_share_a_processor():
    for count in range(1, 17):
        for spare in range(4):
            sets = cpusets(count, EIGHT, spare=spare)
            all_of_them = [cpu for one in sets for cpu in one]
            assert len(sets) == count
            assert len(all_of_them) == len(set(all_of_them))
            assert all(sets)
