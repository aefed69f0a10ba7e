# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from rpent_box.errors import TransportError
from rpent_box.transport.lease import Lease, LeaseWatch, owner_is_gone


def test_a_held_lease_has_an_owner_and_a_closed_one_has_none(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    with Lease.hold(path) as lease:
        assert not owner_is_gone(path)
        assert not owner_is_gone(path)
    lease.close()
    assert owner_is_gone(path)
    assert path.exists()


def test_a_missing_lease_has_no_owner(tmp_path: Path) -> None:
    assert owner_is_gone(tmp_path / "lease")
    assert owner_is_gone(tmp_path / "no-room" / "lease")


def test_a_lease_is_held_once(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    with Lease.hold(path), pytest.raises(TransportError, match="already has a living owner"):
        Lease.hold(path)
    with Lease.hold(path):
        assert not owner_is_gone(path)


def test_somebody_who_only_looks_is_not_taken_for_an_owner(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    path.touch()
    looking = os.open(path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    timer = threading.Timer(0.05, os.close, [looking])
    timer.start()
    with Lease.hold(path):
        assert not owner_is_gone(path)
    timer.join()


def test_a_child_program_does_not_inherit_a_lease(tmp_path: Path) -> None:
    with Lease.hold(tmp_path / "lease") as lease:
        assert lease._descriptor is not None
        assert not os.get_inheritable(lease._descriptor)


def test_looking_needs_no_permission_to_write(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    with Lease.hold(path):
        path.chmod(0o400)
        assert not owner_is_gone(path)
    assert owner_is_gone(path)


def test_a_watch_looks_again_only_after_its_pause(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    watch = LeaseWatch(path, poll_s=0.05)
    lease = Lease.hold(path)
    assert not watch.is_gone()
    lease.close()
    assert not watch.is_gone()
    assert watch.wait(2.0)
    with Lease.hold(path):
        assert watch.is_gone()


def test_a_watch_stops_waiting_at_its_deadline(tmp_path: Path) -> None:
    with Lease.hold(tmp_path / "lease") as lease:
        started = time.monotonic()
        assert not LeaseWatch(lease.path, poll_s=0.02).wait(0.1)
        assert 0.1 <= time.monotonic() - started < 1.0
