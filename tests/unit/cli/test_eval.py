# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from typer.testing import CliRunner

from rpent_box import errors
from rpent_box.cli.app import app
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.manifest import EvalManifest, write_eval_manifest
from rpent_box.evaluate.scale.plan import JobKey
from rpent_box.evaluate.scale.scores import Score
from rpent_box.evaluate.scale.summary import EvalSummary, summarize
from rpent_box.evaluate.scale.watcher import EvalWatcher
from rpent_box.sim.results import ResultsWriter

TOY = ("eval", "--backend", "toy", "--platform", "toy", "--no-report")

FLAGS = {
    "backend": (["--backend", "toy"], "toy"),
    "platform": (["--platform", "toy"], "toy"),
    "checkpoint": (["--checkpoint", "/w"], "/w"),
    "endpoint": (["--endpoint", "tcp://gpu:5555"], "tcp://gpu:5555"),
    "launcher": (["--launcher", "process"], "process"),
    "python": (["--python", "/p"], "/p"),
    "root": (["--root", "/r"], "/r"),
    "platform_python": (["--platform-python", "/s"], "/s"),
    "device": (["--device", "cuda"], "cuda"),
    "cuda_device": (["--cuda-device", "1"], "1"),
    "platform_cuda_device": (["--platform-cuda-device", "0"], "0"),
    "execute_steps": (["--execute-steps", "2"], 2),
    "output_dir": (["--output", "/out"], "/out"),
    "backend_arguments": (["--noise", "0.1"], ("--noise=0.1",)),
    "platform_arguments": (["--toy-step-delay-s", "0.5"], ("--step-delay-s=0.5",)),
    "prediction_timeout_s": (["--prediction-timeout", "2.5"], 2.5),
    "start_timeout_s": (["--start-timeout", "30"], 30.0),
    "episode_timeout_s": (["--episode-timeout", "40"], 40.0),
    "stall_timeout_s": (["--stall-timeout", "50"], 50.0),
    "build": (["--build"], True),
    "threads": (["--threads", "2"], 2),
    "suites": (["--suite", "toy_easy,toy_hard", "--suite", "a"], ("toy_easy", "toy_hard", "a")),
    "tasks": (["--task", "1, reach", "--task", "0"], (1, "reach", 0)),
    "episodes": (["--episodes", "3"], 3),
    "first_init_state": (["--scene-seed", "1003"], 1003),
    "seeds": (["--seed", "7,8", "--seed", "9"], (7, 8, 9)),
    "max_steps": (["--max-steps", "9"], 9),
    "video": (["--video", "none"], "none"),
    "show_predictions": (["--show-predictions"], True),
    "envs": (["--envs", "5"], 5),
    "pin": (["--no-pin"], False),
    "max_batch": (["--max-batch", "8"], 8),
    "max_wait_ms": (["--max-wait-ms", "2.5"], 2.5),
    "ray": (["--ray", "auto"], "auto"),
    "ray_nodes": (["--ray-nodes", "3"], 3),
}
"""Field of the config → words that set it, and to what."""
BY_OTHER_MEANS = {"build_environ", "runtime_dir", "cache_dir", "command"}
"""What the command line takes from its surroundings."""


class Evaluations:
    """Stands in for both calls: keeps what it was asked, plays at once or raises."""

    def __init__(self, story: Any, folder: Path) -> None:
        self.story = story
        self.folder = folder
        self.asked: list[EvalConfig] = []
        self.resumed: list[Path] = []
        self.fails: tuple[int, ...] = ()
        self.error: BaseException | None = None

    def run(self, config: EvalConfig, watcher: EvalWatcher) -> EvalSummary:
        self.asked.append(config)
        watcher.on_begin(self.story.begun())
        watcher.on_episode(self.story.row(self.story.jobs[0]))
        if self.error is not None:
            raise self.error
        return self._write(config)

    def resume(self, run_dir: Path, config: EvalConfig, watcher: EvalWatcher) -> EvalSummary:
        self.resumed.append(run_dir)
        return self.run(config, watcher)

    def _write(self, config: EvalConfig) -> EvalSummary:
        jobs = self.story.jobs
        status = "incomplete" if self.fails else "complete"
        manifest = self.story.manifest(status=status, config=structs.replace(config))
        write_eval_manifest(self.folder, manifest)
        rows = [self.story.row(job) for job in jobs if job.episode not in self.fails]
        with ResultsWriter(self.folder) as writer:
            for row in rows:
                writer.append(row)
        failed = [jobs[number] for number in self.fails]
        (self.folder / "failed.jsonl").write_bytes(
            b"".join(json_line(self.story.failed(job)) for job in failed)
        )
        return summarize(manifest, str(self.folder), rows, [JobKey(*job.key) for job in failed])


def json_line(struct: Any) -> bytes:
    return msgspec.json.encode(struct) + b"\n"


@pytest.fixture
def evaluations(
    toy: None, story: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Evaluations:
    folder = tmp_path / "20260101T000000Z-toy-toy_easy-toy-eval"
    folder.mkdir()
    stand_in = Evaluations(story(run_dir=str(folder)), folder)
    where = "rpent_box.evaluate.scale.evaluation"
    monkeypatch.setattr(f"{where}.run_evaluation", stand_in.run)
    monkeypatch.setattr(f"{where}.resume_evaluation", stand_in.resume)
    return stand_in


def invoke(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.stdout, result.stderr


def test_the_guide_names_everything_that_json_prints() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "evaluation.md").read_text()
    fields = {*EvalSummary.__struct_fields__, *Score.__struct_fields__}
    assert sorted(field for field in fields if f"`{field}`" not in guide) == []


def test_every_field_of_the_config_can_be_reached_from_the_command_line() -> None:
    assert set(EvalConfig.__struct_fields__) == {*FLAGS, *BY_OTHER_MEANS}


@pytest.mark.parametrize("field", FLAGS)
def test_a_word_sets_its_field_and_leaves_all_others_as_the_config_has_them(
    evaluations: Evaluations, field: str
) -> None:
    words, value = FLAGS[field]
    backend = [] if field in ("backend", "endpoint") else ["--backend", "toy"]
    code, _, err = invoke("eval", "--no-report", "--platform", "toy", *backend, *words)
    assert code == 0, err
    (config,) = evaluations.asked
    assert getattr(config, field) == value
    plain = EvalConfig(platform="toy", backend=None if field == "endpoint" else "toy")
    for other in set(FLAGS) - {field}:
        assert getattr(config, other) == getattr(plain, other), other


def test_what_is_not_asked_for_is_left_to_the_evaluation(
    evaluations: Evaluations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RPENT_BOX_RUNTIME_DIR", "/rooms")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert invoke(*TOY)[0] == 0
    (config,) = evaluations.asked
    assert (config.suites, config.tasks, config.seeds, config.episodes) == ((), (), (7,), 10)
    assert (config.envs, config.max_batch, config.max_wait_ms, config.ray) == (None,) * 4
    assert (config.pin, config.video, config.first_init_state) == (True, "failures", None)
    assert (config.runtime_dir, config.cache_dir) == ("/rooms", "/cache/rpent-box")
    assert config.command[0] == "rpent-box"
    assert config.build_environ is None


def test_a_complete_evaluation_prints_its_scores_and_exits_with_0(
    evaluations: Evaluations,
) -> None:
    code, out, err = invoke(*TOY)
    assert code == 0
    assert "success    6 of 6: 100.0%" in out
    assert "go on" not in out
    assert "1 of 6: suite_0 0, init state 0, seed 7: solved in 12 steps" in err


def test_an_incomplete_one_exits_with_1_and_says_how_to_go_on(evaluations: Evaluations) -> None:
    evaluations.fails = (4,)
    code, out, _ = invoke(*TOY)
    assert code == 1
    assert "episode 4 (suite_0 1, init state 1): the toy broke" in out
    assert f"go on      rpent-box eval --resume {evaluations.folder}\n" in out


@pytest.mark.parametrize("fails", [(), (4,)])
def test_json_prints_one_object_and_nothing_else_on_stdout(
    evaluations: Evaluations, fails: tuple[int, ...]
) -> None:
    evaluations.fails = fails
    code, out, _ = invoke(*TOY, "--json")
    summary = json.loads(out)
    assert code == len(fails)
    assert summary["status"] == ("incomplete" if fails else "complete")
    assert summary["total"]["done"] == 6 - len(fails)
    assert summary["run_dir"] == str(evaluations.folder)


def test_quiet_leaves_stderr_empty(evaluations: Evaluations) -> None:
    assert invoke(*TOY, "--quiet")[2] == ""


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_ctrl_c_says_what_is_kept_and_how_to_go_on(
    evaluations: Evaluations, quiet: tuple[str, ...]
) -> None:
    evaluations.error = KeyboardInterrupt()
    code, out, err = invoke(*TOY, *quiet)
    assert (code, out) == (130, "")
    assert f"kept: 1 of 6 episodes are on the disk: {evaluations.folder}\n" in err
    assert f"next: rpent-box eval --resume {evaluations.folder}\n" in err
    assert "Traceback" not in err


def test_an_evaluation_that_cannot_go_on_exits_with_1(evaluations: Evaluations) -> None:
    evaluations.error = errors.ProgramDied("the worker has ended", hint="rpent-box eval --resume X")
    code, out, err = invoke(*TOY, "--json")
    assert code == 1
    assert json.loads(out)["error"]["code"] == "program_died"
    assert "next:  rpent-box eval --resume X" in err


def test_rpents_spellings_and_words_behind_two_dashes_mean_the_same(
    evaluations: Evaluations,
) -> None:
    code, _, err = invoke(
        "eval", "--no-report", "--robot", "toy", "--am-backend", "toy", "--am-checkpoint", "/w",
        "--am-python", "/p", "--", "--noise", "0.3",
    )  # fmt: skip
    assert code == 0, err
    (config,) = evaluations.asked
    assert (config.platform, config.backend, config.checkpoint) == ("toy", "toy", "/w")
    assert (config.python, config.backend_arguments) == ("/p", ("--noise=0.3",))


def test_the_results_are_shown_whatever_becomes_of_the_report(
    evaluations: Evaluations, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["eval", "--platform", "toy", "--backend", "toy"]
    page = evaluations.folder / "report.html"
    code, out, _ = invoke(*words)
    assert (code, out.splitlines()[-1]) == (0, f"report     {page}")

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("rpent_box.cli.eval.write_report", fails)
    error: Exception = errors.OutputError("the disk is full")
    code, out, err = invoke(*words)
    assert code == 0
    assert "success    6 of 6" in out
    assert "no report: the disk is full\nlater: rpent-box report " in err
    error = KeyError("a template of ours")
    code, out, err = invoke(*words)
    assert "success    6 of 6" in out
    assert code == 0
    assert "no report: KeyError('a template of ours')\nlater: rpent-box report " in err
    code, out, _ = invoke(*words, "--json")
    assert json.loads(out)["status"] == "complete"


def test_help_shows_the_options_of_the_platform_and_the_backend(evaluations: Evaluations) -> None:
    code, out, _ = invoke(*TOY, "--help")
    assert code == 0
    for word in ("--resume", "--toy-assets-path", "--noise", "toy's own options"):
        assert word in out
    assert evaluations.asked == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--envs", "many"), "--envs many is no number"),
        (("--envs", "0"), "--envs 0 plays nothing"),
        (("--max-wait-ms", "-1"), "--max-wait-ms -1 is no duration"),
        (("--max-wait-ms", "nan"), "--max-wait-ms nan is no duration"),
        (("--seed", "7,x"), "--seed x is no number"),
        (("--task", ""), "--task '' has a name that is empty"),
        (("--suite", "toy_easy,"), "--suite 'toy_easy,' has a name that is empty"),
        (("--episodes", "0"), "episodes"),
        (("--max-batch", "0"), "max-batch"),
        (("--dashboard-port", "70000"), "dashboard-port"),
        (("--metrics", ":9400"), "--metrics :9400 is no address"),
        (("--metrics", "70000"), "--metrics 70000 is no address"),
        (("--suites", "toy_easy"), "Did you mean --suite?"),
        (("--toy-colour", "red"), "the platform toy has no option colour"),
        (("--video", "some"), "some"),
    ],
)
def test_wrong_usage_exits_with_2_and_starts_nothing(
    evaluations: Evaluations, words: tuple[str, ...], said: str
) -> None:
    code, out, err = invoke(*TOY, *words)
    assert code == 2, err
    assert said in err
    assert out == ""
    assert evaluations.asked == []


# --- resume -------------------------------------------------------------------------------------


@pytest.fixture
def begun(evaluations: Evaluations) -> Callable[..., Path]:
    """Write down an evaluation that was begun."""

    def write(name: str = "20260102T000000Z-toy-toy_easy-toy-eval", **changes: Any) -> Path:
        folder = evaluations.folder.parent / name
        folder.mkdir()
        config = EvalConfig(**{"platform": "toy", "backend": "toy", "envs": 2} | changes)
        manifest: EvalManifest = evaluations.story.manifest(config=config)
        write_eval_manifest(folder, manifest)
        return folder

    return write


def test_resume_goes_on_with_what_was_asked_at_first(
    evaluations: Evaluations, begun: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = begun(seeds=(8, 9), backend_arguments=("--noise=0.1",), command=("rpent-box", "eval"))
    monkeypatch.setenv("RPENT_BOX_RUNTIME_DIR", "/rooms")
    code, _, err = invoke("eval", "--no-report", "--resume", str(folder))
    assert code == 0, err
    assert evaluations.resumed == [folder]
    (config,) = evaluations.asked
    assert (config.seeds, config.backend_arguments) == ((8, 9), ("--noise=0.1",))
    assert (config.envs, config.runtime_dir) == (2, "/rooms")
    assert config.command != ("rpent-box", "eval")


def test_how_it_is_played_may_change(evaluations: Evaluations, begun: Callable[..., Path]) -> None:
    folder = begun(stall_timeout_s=50.0)
    words = ["--envs", "auto", "--no-pin", "--max-wait-ms", "1", "--ray",
             "auto", "--ray-nodes", "2", "--launcher", "docker", "--start-timeout", "9", "--build",
             "--cuda-device", "1", "--quiet"]  # fmt: skip
    code, _, err = invoke("eval", "--no-report", "--resume", str(folder), *words)
    assert code == 0, err
    (config,) = evaluations.asked
    assert (config.envs, config.pin, config.max_wait_ms) == (None, False, 1.0)
    assert (config.ray, config.ray_nodes, config.launcher) == ("auto", 2, "docker")
    assert (config.start_timeout_s, config.stall_timeout_s) == (9.0, 50.0)
    assert (config.cuda_device, config.build) == ("1", True)
    assert config.build_environ is not None


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--suite", "toy_easy", "--seed", "7"], "--suite, --seed"),
        # The default, but given: what is meant by it is not certain.
        (["--episodes", "10"], "--episodes"),
        (["--backend", "toy"], "--backend"),
        (["--scene-seed", "3"], "--first-init-state"),
        (["--video", "all"], "--video"),
        (["--show-predictions"], "--show-predictions"),
        (["--threads", "2"], "--threads"),
        # How large batches are may show in a model's last bits.
        (["--max-batch", "2"], "--max-batch"),
        (["--noise=0.1", "--toy-step-delay-s", "1"], "--noise, --toy-step-delay-s"),
        (["--backend-option", "noise=0.1"], "--backend-option"),
        # Nothing was borrowed, so there is nothing to be found elsewhere.
        (["--endpoint", "tcp://gpu:5555"], "--endpoint"),
        (["--platform-option", "step_delay_s=1"], "--platform-option"),
        (["stray"], "stray"),
    ],
)
def test_what_is_played_may_not_change_and_is_named(
    evaluations: Evaluations, begun: Callable[..., Path], words: list[str], named: str
) -> None:
    code, _, err = invoke("eval", "--resume", str(begun()), *words)
    assert code == 2
    assert f"--resume excludes {named}: what an evaluation plays" in err
    assert evaluations.asked == []


def test_what_a_cluster_began_may_go_on_without_it(
    evaluations: Evaluations, begun: Callable[..., Path]
) -> None:
    folder = begun(ray="head:6379", ray_nodes=4)
    assert invoke("eval", "--no-report", "--resume", str(folder))[0] == 0
    assert invoke("eval", "--no-report", "--resume", str(folder), "--ray", "none")[0] == 0
    on, off = evaluations.asked
    assert (on.ray, on.ray_nodes) == ("head:6379", 4)
    assert (off.ray, off.ray_nodes) == (None, None)


def test_what_is_borrowed_may_be_found_elsewhere(
    evaluations: Evaluations, begun: Callable[..., Path]
) -> None:
    folder = begun(endpoint="ipc:///tmp/old", backend=None)
    words = ["--endpoint", "ipc:///tmp/new", "--prediction-timeout", "9"]
    code, _, err = invoke("eval", "--no-report", "--resume", str(folder), *words)
    assert code == 0, err
    (config,) = evaluations.asked
    assert (config.endpoint, config.prediction_timeout_s) == ("ipc:///tmp/new", 9.0)


def test_options_with_a_secret_are_given_again_since_it_was_never_written(
    evaluations: Evaluations, begun: Callable[..., Path]
) -> None:
    folder = begun(
        platform_arguments=("--applied-log=http://***@host/log",), backend_arguments=("--noise=1",)
    )
    again = ["--toy-applied-log", "http://me:word@host/log"]
    code, _, err = invoke("eval", "--no-report", "--resume", str(folder), *again)
    assert code == 0, err
    (config,) = evaluations.asked
    assert config.platform_arguments == ("--applied-log=http://me:word@host/log",)
    assert config.backend_arguments == ("--noise=1",)
    code, _, err = invoke("eval", "--resume", str(folder), *again, "--noise", "2")
    assert code == 2
    assert "--resume excludes --noise: " in err


@pytest.mark.parametrize(
    "words", [["--resume"], ["--resume", "latest"], ["--resume", "--quiet"], ["--resume", "--"]]
)
def test_without_a_name_the_newest_evaluation_goes_on(
    evaluations: Evaluations, begun: Callable[..., Path], words: list[str]
) -> None:
    begun("20260103T000000Z-toy-toy_easy-toy-eval")
    newest = begun("20260104T000000Z-toy-toy_easy-toy-eval")
    (newest.parent / "20260105T000000Z-toy-toy_easy-0-toy").mkdir()
    code, _, err = invoke("eval", "--no-report", "--output", str(newest.parent), *words)
    assert code == 0, err
    assert evaluations.resumed == [newest]


def test_a_name_is_looked_for_in_the_output_folder(
    evaluations: Evaluations, begun: Callable[..., Path]
) -> None:
    folder = begun()
    where = ["--output", str(folder.parent)]
    assert invoke("eval", "--no-report", "--resume", folder.name, *where)[0] == 0
    assert evaluations.resumed == [folder]
    code, _, err = invoke("eval", "--resume", "yesterdays", *where)
    assert code == 2
    assert "there is no evaluation called yesterdays" in err
    assert folder.name in err


def test_a_run_is_not_taken_for_an_evaluation_and_an_empty_folder_says_so(
    evaluations: Evaluations, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "run.json").write_text("{}")
    code, _, err = invoke("eval", "--resume", str(run_dir))
    assert code == 2
    assert "is a run, and not an evaluation" in err
    for folder in (run_dir, tmp_path / "nowhere"):
        code, _, err = invoke("eval", "--resume", "--output", str(folder))
        assert code == 2
        assert f"there is no evaluation in {folder}" in err
