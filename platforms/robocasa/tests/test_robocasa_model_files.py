# SPDX-License-Identifier: Apache-2.0
"""RoboCasa's objects are what they were, and their files are no longer written among the assets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.simulator

NAMED = """<asset>
<mesh name="cup" file="visual/cup.obj"/>
<texture name="cup" type="2d" file="/elsewhere/cup.png"/>
</asset>"""
BUILD = """
import sys
from pathlib import Path
from rpent_box_robocasa import process
model, assets, elsewhere = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "elsewhere"
if not elsewhere:
    import rpent_box_robocasa.model_files as model_files
    model_files.write_models_in = lambda folder: None
with process.prepared_process(assets):
    from robocasa.models.objects import objects
    opened = []
    def watched(path, *more):
        opened.append(str(path))
        return open(path, *more)
    objects.open = watched
    built = objects.MJCFObject("thing", mjcf_path=str(model))
    print(opened[0])
    print(built.get_xml())
"""


def test_a_model_is_the_same_wherever_it_was_written(standins: str, tmp_path: Path) -> None:
    model = tmp_path / "cup" / "model.xml"
    model.parent.mkdir()
    boxes = next(Path(standins).glob("objects/*/*/*/model.xml")).read_text()
    assert "<asset></asset>" in boxes
    model.write_text(boxes.replace("<asset></asset>", NAMED))
    (there, stock), (here, ours) = (
        _built(model, standins, where) for where in ("beside", "elsewhere")
    )
    assert Path(there).parent == model.parent
    assert Path(here).parent != model.parent
    assert ours == stock
    assert f'file="{model.parent}/visual/cup.obj"' in ours
    assert 'file="/elsewhere/cup.png"' in ours
    assert [file.name for file in model.parent.iterdir()] == ["model.xml"]


def _built(model: Path, assets: str, where: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(model), assets, where],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    opened, _, xml = done.stdout.partition("\n")
    return opened, xml
