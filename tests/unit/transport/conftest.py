# SPDX-License-Identifier: Apache-2.0
"""A box's directories."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bare_box import make_bare_box, remove_bare_box

from rpent_box.transport.paths import BoxPaths


@pytest.fixture
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoxPaths]:
    paths = make_bare_box(tmp_path_factory.mktemp("rb"))
    yield paths
    assert remove_bare_box(paths) == []
