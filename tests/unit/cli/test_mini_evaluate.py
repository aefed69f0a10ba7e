# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from rpent_box.cli import mini_evaluate
from rpent_box.cli.app import app
from rpent_box.cli.mini_exams import Trial, hashes_of, read_scores
from rpent_box.cli.mini_work import Work
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.scores import Score
from rpent_box.evaluate.scale.summary import EvalSummary, SuiteScore, TaskScore
from rpent_box.evaluate.scale.watcher import EvalWatcher
from rpent_box.evaluate.stages.stage import Stage

ONE = ("--suite", "libero_spatial", "--no-report", "--quiet")


class Exams:
    """Stands in for playing: every episode but each task's first is solved."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.out = folder / "scores"
        self.checkpoint = folder / "checkpoint"
        self.checkpoint.mkdir()
        (self.checkpoint / "mini_wam.onnx").write_bytes(b"weights")
        self.played: dict[str, EvalConfig] = {}
        self.tried: list[Stage] = []
        self.status = "complete"
        monkeypatch.setattr("rpent_box.evaluate.scale.kept.play_kept", self.play)
        monkeypatch.setattr(mini_evaluate, "simulator_python", lambda given, **_: given or "/sim")
        monkeypatch.setattr(Work, "run", lambda _work, stage: self.try_sentences(stage))

    def play(self, folder: Path, config: EvalConfig, watcher: EvalWatcher) -> EvalSummary:
        self.played[folder.name] = config
        score = score_of(config.episodes - 1, config.episodes)
        (suite,) = config.suites
        fields = msgspec.structs.asdict(score)
        return EvalSummary(
            run="run",
            run_dir=str(folder / "run"),
            status=self.status,  # type: ignore[arg-type]
            backend="mini-wam",
            platform=config.platform,
            seeds=config.seeds,
            tasks=(TaskScore(suite=suite, task=3, name="pick_up_the_bowl", **fields),),
            suites=(SuiteScore(suite=suite, **fields),),
            total=score,
            restarts=0,
            worker_starts=1,
            envs=2,
            sittings=1,
            wall_s=9.0,
            episodes_per_minute=3.0,
            worker_busy_share=None,
            stages_s={},
        )

    def try_sentences(self, stage: Stage) -> None:
        self.tried.append(stage)
        folder = Path(stage.folder)
        folder.mkdir(parents=True, exist_ok=True)
        trials = [trial(0, "named"), trial(0, "own"), trial(4, "named"), trial(4, "none")]
        lines = b"".join(msgspec.json.encode(one) + b"\n" for one in trials)
        (folder / "trials.jsonl").write_bytes(lines)

    def invoke(self, *words: str) -> tuple[int, str, str]:
        given = ("--checkpoint", str(self.checkpoint), "--out", str(self.out))
        result = CliRunner().invoke(app, ["mini", "evaluate", *given, *words])
        return result.exit_code, result.stdout, result.stderr


def score_of(successes: int, episodes: int) -> Score:
    return Score(
        episodes=episodes,
        done=episodes,
        failed=0,
        successes=successes,
        success_rate=successes / episodes,
        success_interval=(0.25, 0.75),
        mean_steps=60.0,
        mean_success_steps=55.0,
    )


def trial(task: int, lifted: str) -> Trial:
    says = task + 1
    return Trial(
        suite="libero_spatial",
        task=task,
        says=says,
        instruction=f"take bowl {says}",
        lifted=lifted,
        reached=lifted,
    )


@pytest.fixture
def exams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Exams:
    return Exams(tmp_path, monkeypatch)


def test_each_suite_each_variant_and_the_blind_one_is_an_evaluation_of_its_own(
    exams: Exams,
) -> None:
    words = ("--episodes", "50", "--control-episodes", "4", "--pro-episodes", "6")
    code, _, err = exams.invoke("--no-report", "--quiet", *words)
    assert code == 0, err
    assert {name: config.episodes for name, config in exams.played.items()} == {
        **{"libero_spatial": 50, "libero_object": 50, "libero_goal": 50},
        "libero_spatial-grey": 4,
        **{f"libero_spatial_{variant}": 6 for variant in ("lan", "swap", "object", "task")},
    }
    blind = exams.played.pop("libero_spatial-grey")
    assert blind.backend_arguments == ("--see=grey",)
    assert blind.suites == ("libero_spatial",)
    for name, config in exams.played.items():
        assert config.backend_arguments == ()
        assert config.checkpoint == str(exams.checkpoint)
        assert config.platform == ("libero-pro" if name.count("_") == 2 else "libero")


def test_only_the_parts_that_are_named_are_played(exams: Exams) -> None:
    words = ("--part", "grey", "--control-suite", "libero_goal", "--task", "3", "--envs", "2")
    assert exams.invoke(*words, "--no-report", "--quiet")[0] == 0
    ((name, config),) = exams.played.items()
    assert (name, config.tasks, config.envs) == ("libero_goal-grey", (3,), 2)
    assert exams.tried == []
    code, _, err = exams.invoke("--part", "gray")
    assert code == 2
    assert "There are: suites, sentences, grey, pro" in err


def test_the_sentences_are_tried_in_the_simulators_python(exams: Exams) -> None:
    code, out, _ = exams.invoke(*ONE, "--part", "sentences", "--control-episodes", "2")
    assert code == 0
    (stage,) = exams.tried
    assert stage.command[:3] == ("/sim", "-m", "rpent_box_libero.teaching.controls")
    assert f"--out={exams.out}/libero_spatial-sentences/trials.jsonl" in stage.arguments
    assert f"--checkpoint={exams.checkpoint}" in stage.arguments
    assert {"--episodes=2", "--seed=7", "--suite=libero_spatial"} <= set(stage.arguments)
    scene = [line.split() for line in out.splitlines() if line.startswith("0 ")]
    assert scene == [["0", "1", "2", "50.0%", "9.5%", "to", "90.5%", "1", "0"]]
    whole = [line.split() for line in out.splitlines() if line.startswith("all")]
    assert whole == [["all", "4", "50.0%", "15.0%", "to", "85.0%", "1", "1"]]


def test_the_scores_are_shown_per_task_and_kept(exams: Exams) -> None:
    code, out, _ = exams.invoke(*ONE, "--part", "suites,grey", "--episodes", "4")
    assert code == 0
    assert "\nlibero_spatial\n" in out
    assert "libero_spatial with grey frames\n" in out
    assert "3: pick_up_the_bowl  4/4     75.0%  25.0% to 75.0%   60.0" in out
    assert f"scores     {exams.out}/scores.json\n" in out
    assert exams.invoke(*ONE, "--part", "sentences")[0] == 0
    kept = read_scores(exams.out)
    assert kept is not None
    assert [one.name for one in kept.exams] == ["libero_spatial", "libero_spatial-grey"]
    assert [(one.task, one.attempts, one.lifted) for one in kept.sentences] == [
        (0, 2, {"named": 1, "own": 1}),
        (4, 2, {"named": 1, "none": 1}),
    ]
    assert kept.checkpoint == hashes_of(str(exams.checkpoint))


def test_scores_of_two_checkpoints_are_not_mixed(exams: Exams) -> None:
    assert exams.invoke(*ONE, "--part", "suites")[0] == 0
    exams.played.clear()
    (exams.checkpoint / "mini_wam.onnx").write_bytes(b"other weights")
    code, _, err = exams.invoke(*ONE, "--part", "suites")
    assert code == 2
    assert "holds scores of another checkpoint: mini_wam.onnx" in err
    assert exams.played == {}


def test_an_episode_without_a_result_is_told_by_the_exit_code(exams: Exams) -> None:
    exams.status = "incomplete"
    code, out, _ = exams.invoke(*ONE, "--part", "suites")
    assert code == 1
    assert "libero_spatial (incomplete)\n" in out


def test_a_folder_without_weights_is_no_checkpoint(exams: Exams) -> None:
    (exams.checkpoint / "mini_wam.onnx").unlink()
    code, _, err = exams.invoke(*ONE)
    assert code == 2
    assert "holds no checkpoint\nnext:  Export one: rpent-box mini export TRAINING" in err


def test_json_prints_the_scores_alone(exams: Exams) -> None:
    code, out, _ = exams.invoke(*ONE, "--part", "suites", "--json")
    assert code == 0
    assert json.loads(out)["exams"][0]["summary"]["total"]["successes"] == 49


def test_the_built_in_weights_are_scored_where_none_are_named() -> None:
    assert {"mini_wam.onnx", "mini_wam.json"} <= set(hashes_of(None))


def test_what_is_played_again_replaces_what_was_known(
    exams: Exams, monkeypatch: pytest.MonkeyPatch
) -> None:
    exams.status = "incomplete"
    exams.invoke(*ONE, "--part", "suites")
    exams.status = "complete"
    assert exams.invoke(*ONE, "--part", "suites")[0] == 0
    kept = read_scores(exams.out)
    assert kept is not None
    assert [one.summary.status for one in kept.exams] == ["complete"]
    assert replace(kept, written_at="").is_complete
