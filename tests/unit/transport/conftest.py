# SPDX-License-Identifier: Apache-2.0
"""A box's directories."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rpent_box.transport.paths import BoxPaths


@pytest.fixture
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoxPaths]:
    paths = BoxPaths.on_host(secrets.token_hex(4), runtime_dir=tmp_path_factory.mktemp("rb"))
    for directory in (paths.sockets, paths.grants, paths.results):
        directory.mkdir(parents=True)
    yield paths
    leftovers = [path.name for path in Path("/dev/shm").glob(f"rpent-box.{paths.box}.*")]
    for name in leftovers:
        Path("/dev/shm", name).unlink()
    shutil.rmtree(paths.grants)
    shutil.rmtree(paths.results)
    assert leftovers == []
