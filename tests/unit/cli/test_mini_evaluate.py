# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from fabricated_runs import fabricate_evaluation, plan_of
from msgspec.structs import replace
from typer.testing import CliRunner

from rpent_box.cli import mini_evaluate
from rpent_box.cli.app import app
from rpent_box.cli.mini_exams import Scores, hashes_of, read_scores, write_scores
from rpent_box.cli.mini_sentences import Trial, read_trials, sentences_of
from rpent_box.cli.mini_work import Work
from rpent_box.errors import EnvironmentMissing, OutputError, UnknownName
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.scores import Score
from rpent_box.evaluate.scale.summary import EvalSummary, SuiteScore, TaskScore
from rpent_box.evaluate.scale.watcher import EvalWatcher
from rpent_box.evaluate.stages.stage import Stage

QUIET = ("--no-report", "--quiet")
ONE = ("--suite", "libero_spatial", *QUIET)


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
        self.silent = {"libero_object", "libero_goal"}
        """Suites in which no other sentence can be said."""
        monkeypatch.setattr("rpent_box.evaluate.scale.kept.play_kept", self.play)
        monkeypatch.setattr(mini_evaluate, "simulator_python", lambda given, **_: given or "/sim")
        monkeypatch.setattr(mini_evaluate, "require_sentences", self.require_sentences)
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

    def require_sentences(self, python: str, suite: str, tasks: object, environ: object) -> None:
        if suite in self.silent:
            raise UnknownName(f"no scene of {suite} has another task's sentence")

    def try_sentences(self, stage: Stage) -> None:
        self.tried.append(stage)
        folder = Path(stage.folder)
        lifted = ((0, "named"), (0, "own"), (4, "named"), (4, "none"))
        keep_trials(folder, *(trial(*one, init_state=k) for k, one in enumerate(lifted)))

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


def keep_trials(folder: Path, *trials: Trial) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = b"".join(msgspec.json.encode(one) + b"\n" for one in trials)
    (folder / "trials.jsonl").write_bytes(lines)


def trial(
    task: int, lifted: str, *, init_state: int = 0, suite: str = "libero_spatial", seed: int = 7
) -> Trial:
    says = task + 1
    return Trial(
        suite=suite,
        task=task,
        says=says,
        init_state=init_state,
        seed=seed,
        model="mini-wam 5b",
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


def test_an_earlier_exam_without_all_its_results_does_not_fail_another_one(exams: Exams) -> None:
    exams.status = "incomplete"
    assert exams.invoke("--suite", "libero_goal", *QUIET, "--part", "suites")[0] == 1
    exams.status = "complete"
    code, out, _ = exams.invoke(*ONE, "--part", "suites")
    assert "libero_goal (incomplete)\n" in out
    assert code == 0


def test_a_suite_without_other_sentences_has_none_played_and_that_is_said(exams: Exams) -> None:
    code, _, err = exams.invoke("--suite", "libero_goal", "--no-report")
    assert code == 0, err
    assert "sentences: left out: no scene of libero_goal has another task's sentence" in err
    assert exams.tried == []
    assert "libero_goal-grey" in exams.played


def test_a_suite_without_variants_has_none_played_and_that_is_said(exams: Exams) -> None:
    exams.silent = set()
    code, _, err = exams.invoke("--suite", "libero_90", "--task", "0", "--no-report")
    assert code == 0, err
    assert "pro: left out: libero-pro has no suite called libero_90_lan" in err
    assert list(exams.played) == ["libero_90", "libero_90-grey"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--part", "suites,sentences", "--suite", "libero_goal"), "another task's sentence"),
        (("--part", "suites,pro", "--suite", "libero_90"), "no suite called libero_90_lan"),
        (("--control-episodes", "51"), "51"),
        (("--pro-episodes", "51"), "51"),
        (("--control-suite", "libero_spacial"), "no suite called libero_spacial"),
        (("--task", "0,11"), "no task 11"),
        (("--part", "suites,sentences", "--simulator-python", "/none"), "/none has no pyarrow"),
    ],
)
def test_what_can_be_known_to_be_wrong_is_known_before_anything_is_played(
    exams: Exams, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    def find(given: str | None, **_: object) -> str:
        if given is not None:
            raise EnvironmentMissing(f"{given} has no pyarrow")
        return "/sim"

    monkeypatch.setattr(mini_evaluate, "simulator_python", find)
    code, _, err = exams.invoke(*QUIET, *words)
    assert code in (1, 2)
    assert said in err
    assert exams.played == {}
    assert not exams.out.exists()


def test_other_options_than_the_first_time_are_refused_before_anything_is_played(
    exams: Exams,
) -> None:
    grey = plan_of({"libero_spatial": 10}, episodes=10)
    fabricate_evaluation(exams.out / "libero_spatial-grey", "run", plan=grey)
    code, _, err = exams.invoke(*ONE, "--part", "suites,grey", "--control-episodes", "20")
    assert code == 2
    assert "another evaluation was begun" in err
    assert "episodes: 10 → 20" in err
    folder = exams.out / "libero_spatial-sentences"
    keep_trials(folder, trial(0, "named", seed=8))
    code, _, err = exams.invoke(*ONE, "--part", "suites,sentences")
    assert code == 2
    assert "holds attempts with seed 8; this is seed 7" in err
    assert exams.played == {}


def test_of_two_commands_in_one_folder_the_second_is_refused(
    exams: Exams, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    play = exams.play

    def play_beside_another(folder: Path, config: EvalConfig, watcher: EvalWatcher) -> EvalSummary:
        code, _, err = exams.invoke(*ONE, "--part", "grey")
        refused.append(f"{code}: {err}")
        return play(folder, config, watcher)

    monkeypatch.setattr("rpent_box.evaluate.scale.kept.play_kept", play_beside_another)
    assert exams.invoke(*ONE, "--part", "suites")[0] == 0
    (said,) = refused
    assert said.startswith(f"1: error: another command is at work in {exams.out} at this moment")


def test_attempts_of_two_suites_are_never_counted_together(exams: Exams, tmp_path: Path) -> None:
    keep_trials(tmp_path, trial(0, "named"), trial(0, "own", suite="libero_object"))
    found = sentences_of(read_trials(tmp_path))
    assert [(one.suite, one.attempts) for one in found] == [
        ("libero_object", 1),
        ("libero_spatial", 1),
    ]


def test_an_attempt_that_is_written_down_twice_is_an_error(tmp_path: Path) -> None:
    keep_trials(tmp_path, trial(0, "named"), trial(0, "named"))
    with pytest.raises(OutputError, match=r"twice: libero_spatial, scene 0 with the sentence of 1"):
        read_trials(tmp_path)


def test_attempts_of_each_suite_have_a_table_of_their_own(exams: Exams) -> None:
    exams.silent = set()
    folder = exams.out / "libero_object-sentences"
    keep_trials(folder, trial(2, "named", suite="libero_object"))
    score = Scores(checkpoint=hashes_of(str(exams.checkpoint)), written_at="")
    found = sentences_of(read_trials(folder))
    write_scores(exams.out, replace(score, sentences=found))
    code, out, err = exams.invoke(*ONE, "--part", "sentences")
    assert code == 0, err
    assert "libero_object, another task's sentence in the same scene\n" in out
    assert "libero_spatial, another task's sentence in the same scene\n" in out
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("all")] == [
        ["all", "1"],
        ["all", "4"],
    ]
