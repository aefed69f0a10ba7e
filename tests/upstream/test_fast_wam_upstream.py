# SPDX-License-Identifier: Apache-2.0
"""fast-wam on FastWAM's own code, with tiny random weights that are made here.

`RPENT_BOX_FAST_WAM_PYTHON` names a Python that has FastWAM and torch. With RLinf in it (or on
`RPENT_BOX_FAST_WAM_PATH`, which is put before its other paths), its policy is asked as well.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "support" / "fast_wam"
PYTHON = os.environ.get("RPENT_BOX_FAST_WAM_PYTHON", "")
MORE_PATH = os.environ.get("RPENT_BOX_FAST_WAM_PATH", "")
MARK = "answer: "
RUN_S = 300.0

pytestmark = [
    pytest.mark.upstream,
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON,
        reason="no Python with FastWAM was named. Make one, then run: RPENT_BOX_FAST_WAM_PYTHON="
        "$(rpent-box build fast-wam --variant cpu --launcher process | sed 's/.*: //') "
        "python -m pytest tests/upstream/test_fast_wam_upstream.py",
    ),
]


def run(*words: str) -> str:
    paths = [str(ROOT), str(SUPPORT), *([MORE_PATH] if MORE_PATH else [])]
    done = subprocess.run(
        [PYTHON, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def make(folder: Path, platform: str) -> Path:
    run(str(SUPPORT / "fast_wam_tiny.py"), str(folder), "--platform", platform)
    return folder


def drive(folder: Path, platform: str, **options: Any) -> dict[str, Any]:
    return drive_all(folder, platform, [options])[0]


def drive_all(folder: Path, platform: str, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what each job's options give, one after the other in one process."""
    default = {"config": str(folder / "tiny.yaml")}
    words = [json.dumps({**default, **options}) for options in jobs]
    printed = run(str(SUPPORT / "fast_wam_drive.py"), str(folder), platform, *words)
    lines = [line for line in printed.splitlines() if line.startswith(MARK)]
    return [json.loads(line.removeprefix(MARK)) for line in lines]


@pytest.fixture(scope="module")
def libero(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("libero"), "libero")


@pytest.fixture(scope="module")
def robotwin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("robotwin"), "robotwin")


@pytest.fixture(scope="module")
def answer(libero: Path) -> dict[str, Any]:
    return drive(libero, "libero")


def test_the_same_moment_gives_the_same_actions_also_in_another_process(
    answer: dict[str, Any], libero: Path
) -> None:
    assert answer["first"] == answer["again"]
    assert drive(libero, "libero")["first"] == answer["first"]
    assert np.shape(answer["first"]) == (10, 7)


def test_weights_are_read_as_nothing_else_though_the_environment_asks_for_the_contrary(
    answer: dict[str, Any], libero: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    assert drive(libero, "libero")["first"] == answer["first"]


def test_everything_that_it_is_given_changes_the_actions(answer: dict[str, Any]) -> None:
    for what in ("other_chunk", "other_words", "other_frames", "other_proprio"):
        assert answer[what] != answer["first"], what


def test_a_sentence_is_encoded_once_and_gives_what_fastwam_makes_of_it_as_a_prompt(
    answer: dict[str, Any],
) -> None:
    assert answer["by_prompt"] == answer["first"]
    first, other = answer["sentences_encoded"]
    assert other.endswith("following instruction: close the drawer")
    assert first != other


def test_robotwin_is_served_from_fastwams_own_configuration(robotwin: Path) -> None:
    answer = drive(robotwin, "robotwin")
    assert np.shape(answer["first"]) == (24, 14)
    assert answer["provenance"]["normalisation"] == "state z-score, action z-score"
    for what in ("other_chunk", "other_words", "other_frames", "other_proprio"):
        assert answer[what] != answer["first"], what


def test_robotwin_is_served_from_a_resolved_configuration_with_the_same_actions(
    robotwin: Path, tmp_path: Path
) -> None:
    resolve = (
        "import sys, yaml; from omegaconf import OmegaConf;"
        "from hydra import compose, initialize_config_dir;"
        "from rpent_box.backends.fast_wam.configuration import find_config_dir;"
        "c = yaml.safe_load(open(sys.argv[1]));\n"
        "with initialize_config_dir(version_base='1.3', config_dir=str(find_config_dir('', ''))):\n"
        "    whole = compose('sim_robotwin', overrides=c['fastwam']['overrides'])\n"
        "plain = lambda part: OmegaConf.to_container(part, resolve=True)\n"
        "print(yaml.safe_dump({'model': plain(whole.model),"
        " 'processor': plain(whole.data.train.processor), 'video_size': [384, 320],"
        " 'concat': 'robotwin', 'action_horizon': 32, 'execute_steps': 8, 'precision': 'fp32',"
        " 'inference_options': c['inference_options'],"
        " 'fastwam': {'components': c['fastwam']['components']}}))"
    )
    config = tmp_path / "resolved.yaml"
    config.write_text(run("-c", resolve, str(robotwin / "tiny.yaml")))
    short = drive(robotwin, "robotwin", config=str(config))["first"]
    assert np.shape(short) == (8, 14)
    assert short == drive(robotwin, "robotwin")["first"][:8]


def test_the_models_precision_changes_its_actions_a_little(libero: Path, tmp_path: Path) -> None:
    configs = [
        changed(libero, tmp_path, precision=precision, binarize_gripper=False)
        for precision in ("fp32", "bf16")
    ]
    exact, rounded = drive_all(libero, "libero", [{"config": config} for config in configs])
    difference = np.abs(np.subtract(rounded["first"], exact["first"]))
    assert 0 < difference.max() < 0.2


def changed(folder: Path, tmp_path: Path, **more: Any) -> str:
    """Return the path of the tiny configuration with other values in it."""
    values = yaml.safe_load((folder / "tiny.yaml").read_text())
    path = tmp_path / f"worker-{len(list(tmp_path.iterdir()))}.yaml"
    path.write_text(yaml.safe_dump({**values, **more}))
    return str(path)


def overridden(folder: Path, tmp_path: Path, *overrides: str, components: bool = True) -> str:
    """Return the path of the tiny configuration with more overrides, or without its components."""
    composition = yaml.safe_load((folder / "tiny.yaml").read_text())["fastwam"]
    composition["overrides"] += overrides
    if not components:
        del composition["components"]
    return changed(folder, tmp_path, fastwam=composition)


REFUSED = {
    "a name that FastWAM does not have": ("model.no_such_thing=1", "BadOption", "no_such_thing"),
    "actions normalised step by step": (
        "data.train.processor.use_stepwise_action_norm=true",
        "BadOption",
        "step by step",
    ),
    "a picture of another size": ("data.train.video_size=[224,224]", "BadOption", "video_size"),
    "another robot's actions": (
        "model.action_dit_config.action_dim=14",
        "BadOption",
        "libero has 8 and 7",
    ),
    "layers of another size": ("model.video_dit_config.ffn_dim=32", "BadCheckpoint", "other sizes"),
    "experts that do not go together": (
        "model.video_dit_config.num_layers=1",
        "BadOption",
        "cannot be built",
    ),
    "another model": ("model._target_=fastwam.runtime.create_fastwam_joint", "BadOption", "joint"),
}


def test_a_configuration_that_does_not_fit_is_refused_at_the_start(
    libero: Path, tmp_path: Path
) -> None:
    jobs = [{"config": overridden(libero, tmp_path, one)} for one, _, _ in REFUSED.values()]
    answers = drive_all(libero, "libero", jobs)
    for (what, (_, kind, said)), answer in zip(REFUSED.items(), answers, strict=True):
        assert answer.get("refused") == kind, (what, answer)
        assert said in answer["why"], (what, answer)


def test_weights_with_fewer_layers_than_the_configuration_are_refused(
    libero: Path, tmp_path: Path
) -> None:
    layers = [f"model.{part}_dit_config.num_layers=3" for part in ("video", "action")]
    answer = drive(libero, "libero", config=overridden(libero, tmp_path, *layers))
    assert answer["refused"] == "BadCheckpoint"
    assert "lack" in answer["why"]


def test_components_of_unknown_sizes_are_refused_with_what_to_say(
    libero: Path, tmp_path: Path
) -> None:
    config = overridden(libero, tmp_path, components=False)
    answer = drive(libero, "libero", config=config)
    assert answer["refused"] == "BadOption"
    assert "components" in answer["hint"]


def test_a_checkpoint_of_the_other_platform_is_refused(robotwin: Path) -> None:
    answer = drive(robotwin, "libero", config="")
    assert answer["refused"] == "BadCheckpoint"
    assert "RoboTwin" in answer["why"]


def test_rlinfs_policy_gives_the_actions_of_fastwams_own_code(
    answer: dict[str, Any], libero: Path, tmp_path: Path
) -> None:
    # The transforms are training's and would need torchvision.
    part = "data.train.processor"
    transforms = [f"{part}.{kind}_transforms=null" for kind in ("train", "val")]
    config = overridden(libero, tmp_path, *transforms)
    through_rlinf = drive(libero, "libero", config=config, integration="rlinf")
    if "refused" in through_rlinf:
        assert "--integration" not in through_rlinf["why"]
        pytest.skip(f"RLinf is not in that Python: {through_rlinf['why']}")
    assert through_rlinf["provenance"]["integration"] == "rlinf"
    for what in ("first", "other_chunk", "other_words", "other_frames", "other_proprio"):
        np.testing.assert_allclose(through_rlinf[what], answer[what], rtol=0, atol=1e-6)
