# SPDX-License-Identifier: Apache-2.0
"""The models of an object are found in one order, whatever disk they are on."""

from __future__ import annotations

import glob
import importlib
import os
from pathlib import Path
from types import ModuleType

import pytest

from rpent_box_robotwin.listing import sort_listings
from rpent_box_robotwin.process import import_runtime, prepared_process
from rpent_box_robotwin.suites import find_suite

MODELS = ("model_data0.json", "model_data1.json", "model_data10.json", "model_data2.json")
READ_BY_GLOB = {
    "place_a2b_left",
    "place_a2b_right",
    "place_object_scale",
    "place_object_stand",
    "put_object_cabinet",
}


@pytest.fixture
def unordered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of models whose file system lists them the wrong way round."""
    for name in MODELS:
        (tmp_path / name).touch()
    found = glob.glob
    monkeypatch.setattr(glob, "glob", lambda pattern: sorted(found(pattern), reverse=True))
    return tmp_path


def test_a_task_finds_its_models_by_name(unordered: Path) -> None:
    task = ModuleType("task")
    task.glob = glob  # type: ignore[attr-defined]
    pattern = os.path.join(unordered, "model_data*.json")
    assert task.glob.glob(pattern)[0].endswith(MODELS[-1])
    for _ in range(2):
        sort_listings(task)
        assert [os.path.basename(path) for path in task.glob.glob(pattern)] == list(MODELS)


def test_a_module_that_lists_nothing_stays_as_it_is() -> None:
    task = ModuleType("task")
    sort_listings(task)
    assert not hasattr(task, "glob")


@pytest.mark.simulator
def test_every_task_that_lists_files_lists_them_by_name(unordered: Path) -> None:
    pytest.importorskip("sapien", reason="SAPIEN is not installed here")
    with prepared_process():
        import_runtime()
        from rpent_box_robotwin.environment import _new_task

        listing = set()
        for name in find_suite("demo_clean").tasks:
            _new_task(name)
            module = importlib.import_module(f"robotwin.envs.{name}")
            if hasattr(module, "glob"):
                listing.add(name)
                paths = module.glob.glob(os.path.join(unordered, "model_data*.json"))
                assert [os.path.basename(path) for path in paths] == list(MODELS), name
    assert listing >= READ_BY_GLOB
