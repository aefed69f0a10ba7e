# SPDX-License-Identifier: Apache-2.0
"""The examples of the documentation are complete and work; the generated page is up to date."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rpent_box.backends import checkpoint_files, statistics_files, tensor_files
from rpent_box.cli.reference import main as write_reference
from rpent_box.contracts.checkpoint import Inspection
from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.control_messages import PlayEpisode
from rpent_box.contracts.fit import explain_mismatch
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk, Observation
from rpent_box.errors import BadCheckpoint
from rpent_box.options import parse_options
from rpent_box.plugins import find_backend, find_platform
from rpent_box.sim.episode import play_episode
from rpent_box.sim.platform import Scene
from rpent_box.worker.backend import LoadContext, PredictionInput

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLE_FILE = re.compile(r"^`([\w./-]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+://|#)([^)#]+)")

PAGES = sorted([*DOCS.glob("*.md"), *ROOT.glob("*.md")])

Install = Callable[[str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Write out the files that a page shows, install them, and forget them afterwards."""
    before = set(sys.modules)

    def install_from(page: str) -> None:
        files = dict(EXAMPLE_FILE.findall((DOCS / page).read_text()))
        assert any(name.endswith("pyproject.toml") for name in files), f"no example in {page}"
        for name, text in files.items():
            path = tmp_path / "source" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (folder,) = (tmp_path / "source").iterdir()
        target = tmp_path / "installed"
        pip = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps"]
        where = ["--no-build-isolation", "--python", sys.executable, "--target", str(target)]
        subprocess.run([*pip, *where, str(folder)], check=True, timeout=120)
        monkeypatch.syspath_prepend(str(target))
        importlib.invalidate_caches()

    yield install_from
    for name in set(sys.modules) - before:
        if name.startswith(("rpent_box_wander", "rpent_box_disc")):
            del sys.modules[name]


def test_the_example_model_loads_and_predicts_what_its_meta_promises(install: Install) -> None:
    install("adding-a-model.md")
    spec = find_backend("wander")
    options = parse_options(spec.options, ["--speed", "0.5"], program="wander")
    context = LoadContext(platform="libero", checkpoint=None, threads=1, say=lambda phase: None)
    model = spec.load(options, context)
    assert model.meta.backend == spec.name
    assert model.meta.control.action_space in spec.action_spaces

    chunks = [model.predict(request_at(model.meta, chunk=chunk)) for chunk in (0, 0, 1)]
    for chunk in chunks:
        check_actions(chunk, model.meta)
        assert chunk.timings_s.keys() == {"encode", "infer", "decode"}
    assert np.array_equal(chunks[0].actions, chunks[1].actions)
    assert not np.array_equal(chunks[0].actions, chunks[2].actions)


def test_the_example_of_an_inspection_takes_a_sound_checkpoint_and_refuses_others(
    tmp_path: Path,
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", _page("adding-a-model.md"), re.M | re.S)
    (block,) = [one for one in blocks if one.startswith("def inspect(")]
    names = {**vars(checkpoint_files), **vars(tensor_files), **vars(statistics_files)}
    code = compile("from __future__ import annotations\n" + block, "the page", "exec")
    exec(code, names | {"Inspection": Inspection}, found := {})  # noqa: S102
    inspect = found["inspect"]

    header = b'{"policy.head.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    weights = len(header).to_bytes(8, "little") + header + bytes(4)
    (tmp_path / "model.safetensors").write_bytes(weights)
    (tmp_path / "stats.json").write_text(f'{{"action": {{"min": {[-1] * 7}, "max": {[1] * 7}}}}}')
    inspection = inspect(None, tmp_path, "libero")
    assert [file.role for file in inspection.files] == ["weights", "statistics"]
    (tmp_path / "model.safetensors").write_bytes(weights[:-1])
    with pytest.raises(BadCheckpoint, match="cut"):
        inspect(None, tmp_path, "libero")


def test_the_example_platform_is_played_to_success(install: Install, tmp_path: Path) -> None:
    install("adding-a-platform.md")
    plugin = find_platform("disc")
    platform = plugin.open(plugin.options())
    assert platform.meta == plugin.meta

    scene = Scene(suite="marks", task=1, init_state=3, seed=7)
    first = platform.reset(scene).images["primary"]
    platform.apply(np.ones((5, 2), dtype=np.float32))
    again = platform.reset(scene).images["primary"]
    assert np.array_equal(first, again)
    assert (first.dtype, first.shape, first.flags.c_contiguous) == (np.uint8, (64, 64, 3), True)

    policy = Chaser(platform)
    assert explain_mismatch(policy.meta, platform.meta) == []
    played = play_episode(platform, policy, episode_on(plugin.default_suite, tmp_path), print)
    assert played.success
    assert 5 < played.steps < 60
    assert len(list(platform.replay(5.0))) >= 2
    platform.close()
    platform.close()


def test_the_command_line_page_is_up_to_date() -> None:
    assert write_reference(["--check", str(DOCS / "cli.md")]) == 0, "make docs"


def test_a_page_that_is_not_up_to_date_is_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "cli.md"
    page.write_text((DOCS / "cli.md").read_text().replace("--seed", "--sead"))
    assert write_reference(["--check", str(page)]) == 1
    assert "next:  make docs" in capsys.readouterr().err


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    broken = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert broken == []


def _page(name: str) -> str:
    return (DOCS / name).read_text()


def request_at(meta: ModelMeta, *, chunk: int) -> PredictionInput:
    images = {role: np.full((256, 256, 3), 200, dtype=np.uint8) for role in meta.camera_roles}
    proprio = {name: np.zeros(size, dtype=np.float32) for name, size in meta.proprio_schema.items()}
    return PredictionInput(
        observation=Observation(images=images, proprio=proprio, instruction="look around"),
        session="one",
        episode=EpisodeKey(seed=7, suite="libero_spatial", task=0, episode=0, chunk=chunk),
    )


def episode_on(suite: str, folder: Path) -> PlayEpisode:
    return PlayEpisode(
        suite=suite, task=1, init_state=0, episode=0, seed=7, max_steps=60, output_dir=str(folder)
    )


class Chaser:
    """Finds the mark in the picture and goes there: what a model of this platform would learn."""

    seen = None

    def __init__(self, platform: object) -> None:
        self.meta = ModelMeta(
            kind="vla",
            backend="chaser",
            checkpoint="built-in",
            control=platform.meta.controls[0],  # type: ignore[attr-defined]
            camera_roles=("primary",),
            proprio_schema={"disc_position": 2},
            action_horizon=4,
            execute_steps=4,
        )

    def predict(
        self, observation: Observation, *, episode: EpisodeKey | None = None
    ) -> ActionChunk:
        image = observation.images["primary"].astype(int)
        rows, columns = np.nonzero(image[:, :, 2] - image[:, :, 0] > 100)
        mark = np.array([columns.mean(), -rows.mean()]) / (image.shape[0] - 1) * 2 + [-1, 1]
        steps = []
        position = observation.proprio["disc_position"]
        for _ in range(4):
            step = np.clip((mark - position) / 0.05, -1, 1)
            position = position + 0.05 * step
            steps.append(step)
        return ActionChunk(actions=np.array(steps, dtype=np.float32))

    def reset(self) -> None:
        """It remembers nothing."""


def test_the_troubleshooting_page_quotes_errors_as_they_are() -> None:
    """A quote is made of pieces of our texts; `…` stands for what differs from case to case."""
    texts = "\n".join(_texts_of_the_sources())
    rows = re.findall(r"^\| (.*?) \|", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
    quotes = [quote for row in rows for quote in re.findall(r"`([^`]+)`", row) if " " in quote]
    assert len(quotes) > 20
    pieces = {piece.strip() for quote in quotes for piece in quote.split("…")} - {""}
    assert sorted(piece for piece in pieces if piece not in texts) == []


def _texts_of_the_sources() -> Iterator[str]:
    for folder in (ROOT / "rpent_box", *ROOT.glob("platforms/*/rpent_box_*")):
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
