# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from msgspec import structs
from typer.testing import CliRunner

from rpent_box import errors
from rpent_box.cli.app import app
from rpent_box.contracts.control_messages import Progress
from rpent_box.evaluate.config import RunConfig, RunWatcher
from rpent_box.evaluate.summary import RunSummary
from rpent_box.sim.results import EpisodeRow

Rows = Callable[..., EpisodeRow]
Summaries = Callable[..., RunSummary]

TOY = ("run", "--backend", "toy", "--platform", "toy")


class Runs:
    """Stands in for `run_episodes`: keeps what it was asked, answers or raises."""

    def __init__(self, summary: RunSummary) -> None:
        self.asked: list[RunConfig] = []
        self.summary = summary
        self.error: BaseException | None = None

    def __call__(self, config: RunConfig, watcher: RunWatcher) -> RunSummary:
        self.asked.append(config)
        watcher.on_launcher("process", "asked for")
        watcher.on_progress(0, Progress(phase="acting", steps=4, max_steps=40))
        if self.error is not None:
            raise self.error
        return self.summary


@pytest.fixture
def runs(toy: None, row: Rows, summary: Summaries, monkeypatch: pytest.MonkeyPatch) -> Runs:
    stand_in = Runs(summary(row()))
    monkeypatch.setattr("rpent_box.evaluate.run.run_episodes", stand_in)
    return stand_in


def invoke(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.stdout, result.stderr


def test_a_completed_run_prints_its_summary_and_exits_with_0(runs: Runs) -> None:
    code, out, err = invoke(*TOY)
    assert code == 0
    assert "success    yes" in out
    assert "episode 1/1: acting 4/40" in err


def test_a_failed_episode_is_a_result(runs: Runs, row: Rows, summary: Summaries) -> None:
    runs.summary = summary(row(success=False))
    code, out, _ = invoke(*TOY)
    assert code == 0
    assert "success    no" in out


def test_json_prints_one_object_and_nothing_else_on_stdout(runs: Runs) -> None:
    code, out, err = invoke(*TOY, "--json")
    assert code == 0
    shown = json.loads(out)
    assert shown["successes"] == 1
    assert shown["episodes"][0]["stages_s"]["render"] == 1.0
    assert "launcher: process" in err


def test_quiet_leaves_stderr_empty(runs: Runs) -> None:
    assert invoke(*TOY, "--quiet")[2] == ""


def test_every_option_reaches_the_run(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RPENT_BOX_RUNTIME_DIR", "/rooms")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    code, _, err = invoke(
        *TOY, "--suite", "toy_hard", "--task", "1", "--episodes", "3", "--first-init-state", "2",
        "--seed", "11", "--checkpoint", "/w", "--launcher", "process", "--python", "/p", "--root",
        "/r", "--device", "cuda", "--cuda-device", "1", "--execute-steps", "2", "--max-steps", "9",
        "--video", "failures", "--show-predictions", "--output", "/out",
        "--platform-option", "step_delay_s=0.5", "--noise", "0.1",
        "--backend-option", "load_delay_s=1.0", "--prediction-timeout", "2.5",
        "--start-timeout", "30", "--episode-timeout", "40", "--stall-timeout", "50", "--build",
        "--threads", "2", "--platform-python", "/s", "--platform-cuda-device", "0",
    )  # fmt: skip
    assert code == 0, err
    (config,) = runs.asked
    assert config.command[0] == "rpent-box"
    asked = structs.asdict(config)
    del asked["command"]
    assert asked.pop("build_environ")["RPENT_BOX_RUNTIME_DIR"] == "/rooms"
    assert asked == {
        "backend": "toy",
        "platform": "toy",
        "suite": "toy_hard",
        "task": 1,
        "episodes": 3,
        "first_init_state": 2,
        "seed": 11,
        "checkpoint": "/w",
        "endpoint": None,
        "launcher": "process",
        "python": "/p",
        "root": "/r",
        "platform_python": "/s",
        "device": "cuda",
        "cuda_device": "1",
        "platform_cuda_device": "0",
        "execute_steps": 2,
        "max_steps": 9,
        "video": "failures",
        "show_predictions": True,
        "output_dir": "/out",
        "backend_arguments": ("--noise=0.1", "--load-delay-s=1.0"),
        "platform_arguments": ("--step-delay-s=0.5",),
        "prediction_timeout_s": 2.5,
        "start_timeout_s": 30.0,
        "episode_timeout_s": 40.0,
        "stall_timeout_s": 50.0,
        "build": True,
        "threads": 2,
        "runtime_dir": "/rooms",
        "cache_dir": "/cache/rpent-box",
    }  # fmt: skip


def test_rpents_spellings_mean_the_same(runs: Runs) -> None:
    invoke(
        "run", "--robot", "toy", "--am-backend", "toy", "--am-checkpoint", "/w", "--am-python",
        "/p", "--am-root", "/r", "--am-cuda-device", "0",
    )  # fmt: skip
    invoke(
        "run", "--platform", "toy", "--backend", "toy", "--checkpoint", "/w", "--python", "/p",
        "--root", "/r", "--cuda-device", "0",
    )  # fmt: skip
    theirs, ours = runs.asked
    assert theirs.__struct_fields__ == ours.__struct_fields__
    for name in set(ours.__struct_fields__) - {"command"}:
        assert getattr(theirs, name) == getattr(ours, name), name


def test_am_endpoint_borrows_a_worker_of_any_backend(runs: Runs) -> None:
    assert invoke("run", "--robot", "toy", "--am-endpoint", "tcp://gpu:5555")[0] == 0
    (config,) = runs.asked
    assert (config.endpoint, config.backend) == ("tcp://gpu:5555", None)


def test_a_platforms_own_options_go_to_the_simulator_and_a_backends_to_the_worker(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = invoke(*TOY, "--noise", "0.1", "--toy-assets-path", "/a", "--toy-needs-assets")
    assert code == 0, err
    (config,) = runs.asked
    assert config.backend_arguments == ("--noise=0.1",)
    assert config.platform_arguments == ("--assets-path=/a", "--needs-assets")
    borrowed = ("run", "--platform", "toy", "--endpoint", "tcp://gpu:5555")
    assert invoke(*borrowed, "--toy-step-delay-s=0.5")[0] == 0
    assert runs.asked[-1].platform_arguments == ("--step-delay-s=0.5",)
    monkeypatch.setenv("TOY_ASSETS_PATH", "/")
    assert invoke(*TOY)[0] == 0
    assert runs.asked[-1].platform_arguments == ("--assets-path=/",)


def test_a_task_may_be_named_and_a_scene_given_by_its_seed(runs: Runs) -> None:
    assert invoke(*TOY, "--task", "reach_again", "--scene-seed", "100003")[0] == 0
    assert invoke(*TOY)[0] == 0
    named, plain = runs.asked
    assert (named.task, named.first_init_state) == ("reach_again", 100003)
    assert (plain.task, plain.first_init_state) == (0, None)


def test_assets_that_are_missing_are_no_wrong_usage(runs: Runs) -> None:
    runs.error = errors.AssetsMissing("there are no meshes", hint="Fetch them: fetch-meshes DIR")
    code, _, err = invoke(*TOY)
    assert code == 1
    assert "next:  Fetch them: fetch-meshes DIR" in err


def test_help_shows_the_options_of_the_platform_and_of_a_backend_that_is_named(
    runs: Runs,
) -> None:
    code, out, _ = invoke(*TOY, "--help")
    assert code == 0
    assert "toy's own options" in out
    assert "--toy-assets-path" in out
    assert "TOY_ASSETS_PATH stands in for --toy-assets-path" in out
    assert "--noise" in out
    assert runs.asked == []
    without = invoke("run", "--platform", "toy", "-h")[1]
    assert "--toy-assets-path" in without
    assert "--noise" not in without


def test_help_is_there_without_the_default_platform(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rpent_box import plugins

    monkeypatch.setattr(plugins, "_entries", lambda group: {})
    code, out, _ = invoke("run", "--help")
    assert code == 0
    assert "--scene-seed" in out
    assert "there is no platform called libero" in out


def test_words_behind_two_dashes_are_the_backends(runs: Runs) -> None:
    assert invoke(*TOY, "--", "--noise", "0.3")[0] == 0
    assert runs.asked[0].backend_arguments == ("--noise=0.3",)


def test_variables_of_the_backend_fill_python_and_root(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    import rpent_box_toy.backend

    spec = structs.replace(
        rpent_box_toy.backend.BACKEND,
        env_fallbacks={"TOY_PYTHON": "python", "TOY_ROOT": "root"},
    )
    monkeypatch.setattr(rpent_box_toy.backend, "BACKEND", spec)
    monkeypatch.setenv("TOY_PYTHON", "/from/variable")
    monkeypatch.setenv("TOY_ROOT", "/root/from/variable")
    invoke(*TOY, "--root", "/given")
    (config,) = runs.asked
    assert (config.python, config.root) == ("/from/variable", "/given")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--platform", "toy", "--backend", "nobody"), "no backend called nobody"),
        (("run", "--platform", "nowhere", "--backend", "toy"), "no platform called nowhere"),
        ((*TOY, "--endpoint", "tcp://a:1", "--checkpoint", "/w"), "exclude each other"),
        ((*TOY, "--endpoint", "tcp://a:1", "--noise", "0.1"), "runs already and has its options"),
        ((*TOY, "--noise", "loud"), "noise"),
        ((*TOY, "--episode", "5"), "Did you mean --episodes?"),
        ((*TOY, "--predict-future"), "toy has no option --predict-future"),
        ((*TOY, "--platform-option", "colour=red"), "no option colour"),
        ((*TOY, "--launcher", "podman"), "podman"),
        ((*TOY, "--video", "some"), "some"),
        ((*TOY, "--episodes", "0"), "episodes"),
        ((*TOY, "--first-init-state", "-1"), "first-init-state"),
        ((*TOY, "--scene-seed", "one"), "scene-seed"),
        ((*TOY, "--toy-colour", "red"), "the platform toy has no option colour"),
        ((*TOY, "--assets-path", "/a"), "Did you mean --toy-assets-path?"),
        ((*TOY, "--seed"), "seed"),
        (("dance",), "dance"),
    ],
)
def test_wrong_usage_exits_with_2_and_starts_nothing(
    runs: Runs, words: tuple[str, ...], said: str
) -> None:
    code, out, err = invoke(*words)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
    assert out == ""
    assert runs.asked == []


def test_a_run_that_cannot_be_completed_exits_with_1(runs: Runs) -> None:
    runs.error = errors.ProgramDied(
        "worker toy (process 4711) has ended: killed by SIGKILL",
        hint="Its whole log: /runs/run-1/worker.log",
        detail="the last lines",
    )
    code, out, err = invoke(*TOY)
    assert code == 1
    assert out == ""
    assert "error: worker toy (process 4711) has ended" in err
    assert "the last lines" not in err
    assert "the last lines" in invoke(*TOY, "--verbose")[2]


def test_json_stays_one_object_when_the_run_fails(runs: Runs) -> None:
    runs.error = errors.EngineMissing("no Docker engine answers", hint="rpent-box doctor")
    code, out, _ = invoke(*TOY, "--json")
    assert code == 1
    assert json.loads(out)["error"]["code"] == "engine_missing"


def test_json_stays_one_object_for_wrong_usage_of_ours(runs: Runs) -> None:
    code, out, _ = invoke(*TOY, "--json", "--noise", "loud")
    assert code == 2
    assert json.loads(out)["error"]["code"] == "bad_option"


def test_ctrl_c_during_a_run_is_clean(runs: Runs) -> None:
    runs.error = KeyboardInterrupt()
    code, out, err = invoke(*TOY)
    assert code == 130
    assert "Traceback" not in err
    assert "stopped" in err
    assert out == ""
