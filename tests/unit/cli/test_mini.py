# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from rpent_box.cli import mini_all, mini_evaluate, mini_pythons
from rpent_box.cli.app import app
from rpent_box.cli.mini_evaluate import Asked, Scored
from rpent_box.cli.mini_exams import SUITES, Scores
from rpent_box.cli.mini_recipe import Recipe, plan
from rpent_box.cli.mini_stages import sentences_stage
from rpent_box.cli.mini_work import Work
from rpent_box.errors import EnvironmentMissing, UnknownName
from rpent_box.evaluate.stages.record import StageRecord
from rpent_box.evaluate.stages.stage import Stage
from rpent_box.evaluate.stages.writer import only_writer

ROOT = Path(__file__).parents[3]
PLATFORM = ROOT / "platforms" / "libero"
OUT = Path("/made")


def invoke(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["mini", *words])
    return result.exit_code, result.stdout, result.stderr


class Stages:
    """Stands in for running them, and for looking into other Pythons."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ran: list[Stage] = []
        self.missing: dict[str, list[str]] = {}
        stages = self

        def run(work: Work, stage: Stage) -> None:
            stages.ran.append(stage)
            stage.record.parent.mkdir(parents=True, exist_ok=True)
            with StageRecord.begin(stage, work.command) as record:
                record.end("complete")

        monkeypatch.setattr(Work, "run", run)
        monkeypatch.setattr(mini_pythons, "missing_modules", self.ask)
        monkeypatch.setattr(mini_all, "require_lessons", self.require_lessons)
        monkeypatch.setattr(mini_evaluate, "require_sentences", self.require_sentences)

    def require_lessons(self, python: str, names: Sequence[str], environ: object) -> None:
        for name in names:
            if not name.startswith(SUITES):
                raise UnknownName(f"there is no lesson or suite called {name}")

    def require_sentences(self, python: str, suite: str, tasks: object, environ: object) -> None:
        if suite == "libero_goal":
            raise UnknownName(f"no scene of {suite} has another task's sentence")

    def ask(self, python: str, modules: Sequence[str], **_: object) -> list[str]:
        return self.missing.get(python, [])


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Stages:
    return Stages(monkeypatch)


def whole_plan(recipe: Recipe | None = None) -> list[Stage]:
    return list(plan(recipe or Recipe(), OUT, teacher="teacher", trainer="trainer", workers=3))


def test_what_a_stage_reads_was_written_by_an_earlier_one() -> None:
    written: set[str] = set()
    for stage in whole_plan():
        named = {word.split("=")[-1] for word in stage.arguments if str(OUT) in word}
        made = {word.split("=")[1] for word in stage.arguments if word.startswith("--out=")}
        assert len(made) == 1
        assert named - made <= written, stage.title
        written |= made
    assert f"{OUT}/final/checkpoint" in written


def test_only_demonstrations_are_made_in_the_simulators_python() -> None:
    of_teacher = {stage.module for stage in whole_plan() if stage.python == "teacher"}
    assert of_teacher == {"rpent_box_libero.teaching.generate"}
    assert {stage.python for stage in whole_plan()} == {"teacher", "trainer"}


def test_each_program_knows_the_options_that_it_is_given() -> None:
    tried = sentences_stage(
        "teacher",
        folder="/s",
        checkpoint="/c",
        suite="libero_spatial",
        tasks=(1,),
        episodes=1,
        seed=7,
        workers=2,
    )
    begun = whole_plan(Recipe(begin_with_student=True))
    for stage in [*begun, tried]:
        place = stage.module.replace(".", "/") + ".py"
        (source,) = [path for path in (ROOT / place, PLATFORM / place) if path.exists()]
        known = set(re.findall(r'"(--[a-z-]+)"', source.read_text()))
        given = {word.split("=")[0] for word in stage.command[3:] if word.startswith("--")}
        assert given <= known, stage.title


def test_no_two_rounds_share_their_scenes() -> None:
    seeds = [word for stage in whole_plan() if stage.name == "generate" for word in stage.arguments]
    assert [word for word in seeds if word.startswith("--seed=")] == ["--seed=1", "--seed=2"]


def test_how_many_simulators_there_are_decides_nothing() -> None:
    for stage in whole_plan():
        assert not any("workers" in word for word in stage.arguments)


def test_generate_gives_the_program_what_was_asked_for(stages: Stages, tmp_path: Path) -> None:
    out = tmp_path / "data"
    words = ("--lesson", "libero_spatial,libero_goal-3", "--episodes", "4", "--workers", "2")
    code, shown, err = invoke(
        *("generate", "--out", str(out), *words, "--simulator-python", "/python"),
        *("--student", "/student", "--noise", "0.5"),
    )
    assert code == 0, err
    (stage,) = stages.ran
    assert stage.command == (
        *("/python", "-m", "rpent_box_libero.teaching.generate", f"--out={out}"),
        *("--lessons", "libero_spatial", "libero_goal-3", "--seed=1", "--episodes=4"),
        *("--student=mini-wam", "--checkpoint=/student", "--noise", "0.5"),
        *("--workers=2", "--json-progress"),
    )
    assert f"data       {out}\n" in shown


def test_paths_are_found_from_wherever_a_stage_runs(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("train", "round-0", "round-1", "--out", "made", "--steps", "9")[0] == 0
    assert invoke("export", "made")[0] == 0
    train, export = stages.ran
    assert train.arguments == (
        *("--data", f"{tmp_path}/round-0", f"{tmp_path}/round-1", f"--out={tmp_path}/made"),
        *("--seed=0", "--steps=9", "--threads=2"),
    )
    assert train.python == sys.executable
    assert export.arguments == (
        f"--training={tmp_path}/made",
        f"--out={tmp_path}/made/checkpoint",
    )


def test_a_python_without_pytorch_is_one_clear_message(stages: Stages, tmp_path: Path) -> None:
    stages.missing = {sys.executable: ["torch", "onnx"], "/p": ["av"]}
    code, _, err = invoke("train", "d", "--out", str(tmp_path))
    assert code == 1
    assert err.startswith(
        f"error: {sys.executable} has no torch, onnx\nnext:  pip install 'rpent-box[train]', or"
    )
    _, _, err = invoke("export", str(tmp_path), "--python", "/p")
    assert "error: /p has no av\nnext:  /p -m pip install 'rpent-box[train]', or" in err
    assert stages.ran == []


def test_what_teaching_needs_is_added_when_it_may_be_built(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[tuple[str, ...]] = []

    def add_extras(
        kind: str, name: str, extras: Sequence[str], *, project_extras: Sequence[str], **_: object
    ) -> Path:
        added.append((kind, name, *extras, *project_extras))
        return Path("/environment/bin/python")

    def find(*_: object) -> Path:
        return Path("/environment/bin/python")

    monkeypatch.setattr(mini_pythons, "add_extras", add_extras)
    monkeypatch.setattr(mini_pythons, "require_environment", find)
    stages.missing = {"/environment/bin/python": ["pyarrow"]}
    with pytest.raises(EnvironmentMissing) as caught:
        mini_pythons.simulator_python(None, build=False, say=str.upper, environ={})
    assert "--build" in caught.value.hint
    assert added == []
    python = mini_pythons.simulator_python(None, build=True, say=str.upper, environ={})
    assert python == "/environment/bin/python"
    assert added == [("platform", "libero", "mini-wam", "teaching")]


def test_all_makes_everything_once(stages: Stages, tmp_path: Path) -> None:
    out = str(tmp_path / "made")
    words = ("all", "--out", out, "--simulator-python", "/python", "--no-score")
    code, shown, err = invoke(*words)
    assert code == 0, err
    assert [stage.name for stage in stages.ran] == [
        *("generate", "train", "export"),
        *("generate", "train", "export"),
    ]
    assert f"checkpoint {out}/final/checkpoint\n" in shown
    stages.ran.clear()
    code, printed, _ = invoke(*words, "--json", "--workers", "1")
    assert (code, stages.ran) == (0, [])
    made = json.loads(printed)
    assert [one["made"] for one in made["costs"]] == [
        *("round-0", "student", "student", "round-1", "final", "final"),
    ]


def test_all_refuses_to_mix_two_recipes(stages: Stages, tmp_path: Path) -> None:
    words = ("all", "--out", str(tmp_path), "--simulator-python", "/python", "--no-score")
    assert invoke(*words, "--steps", "50")[0] == 0
    code, _, err = invoke(*words, "--steps", "60")
    assert code == 2
    assert "recipe.steps: 50 → 60" in err
    assert msgspec.json.decode((tmp_path / "recipe.json").read_bytes(), type=Recipe).steps == 50


def test_each_training_has_the_seed_that_is_asked_for(stages: Stages, tmp_path: Path) -> None:
    words = ("all", "--out", str(tmp_path), "--simulator-python", "/python", "--no-score")
    code, _, err = invoke(*words, "--seed", "5", "--training-seed", "3")
    assert code == 0, err
    seeds = [(one.name, word) for one in stages.ran for word in one.arguments if "--seed" in word]
    assert seeds == [
        *(("generate", "--seed=5"), ("train", "--seed=3")),
        *(("generate", "--seed=6"), ("train", "--seed=3")),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--lesson", "libero_10"), "there is no lesson or suite called libero_10"),
        (("--lesson", "libero_gaol"), "no suite called libero_gaol"),
        (("--lesson", "libero_goal", "--part", "sentences"), "no scene of libero_goal"),
        (("--simulator-python", "/poor"), "/poor has no pyarrow"),
        (("--part", "gray"), "there is no part gray"),
    ],
)
def test_what_can_be_known_to_be_wrong_is_known_before_hours_of_work(
    stages: Stages, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    stages.missing = {"/poor": ["pyarrow"]}
    out = tmp_path / "made"
    code, _, err = invoke("all", "--out", str(out), "--simulator-python", "/python", *words)
    assert code in (1, 2)
    assert said in err
    assert stages.ran == []
    # So that the right words are not another recipe.
    assert not out.exists()


def test_a_suite_without_other_sentences_is_scored_without_them(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Asked] = []

    def score(given: Asked, _environ: object) -> Scored:
        asked.append(given)
        return Scored(scores=Scores(checkpoint={}, written_at=""), is_complete=True)

    monkeypatch.setattr(mini_all, "score", score)
    words = ("--simulator-python", "/python", "--lesson", "libero_goal")
    code, _, err = invoke("all", "--out", str(tmp_path), *words)
    assert code == 0, err
    assert "sentences: left out: no scene of libero_goal" in err
    (one,) = asked
    assert one.marks.parts == ("suites", "grey", "pro")
    assert one.checkpoint == str(tmp_path / "final" / "checkpoint")


def test_two_commands_do_not_make_one_model(stages: Stages, tmp_path: Path) -> None:
    words = ("all", "--out", str(tmp_path), "--simulator-python", "/python", "--no-score")
    with only_writer(tmp_path):
        code, _, err = invoke(*words)
    assert code == 1
    assert f"another command is at work in {tmp_path}" in err
    assert stages.ran == []


def test_a_recipe_that_cannot_be_read_is_an_error(stages: Stages, tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text("{")
    code, _, err = invoke("all", "--out", str(tmp_path))
    assert code == 1
    assert "is not a recipe" in err


@pytest.mark.parametrize("command", ["generate", "train", "export", "evaluate", "all"])
def test_each_command_has_help(command: str) -> None:
    code, shown, _ = invoke(command, "--help")
    assert code == 0
    assert "--out" in shown


def test_the_guide_shows_the_commands_of_the_recipe() -> None:
    guide = (ROOT / "rpent_box" / "backends" / "mini_wam" / "TRAINING.md").read_text()
    for line in commands_of(whole_plan()):
        assert f"{line}\n" in guide


def commands_of(stages: Sequence[Stage]) -> list[str]:
    """Return what a person would type for each stage, in a folder of its own."""
    shown = []
    for stage in stages:
        words = [word.replace(f"{OUT}/", "").replace("=", " ", 1) for word in stage.arguments]
        shown.append(f"{stage.module.rpartition('.')[2]} {' '.join(words)}")
    return shown
