# SPDX-License-Identifier: Apache-2.0
import pytest
from msgspec import Struct
from rpent_box_toy.running import register_toy, toy_config

from rpent_box.errors import AssetsMissing, BadOption, UnknownName, UsageError
from rpent_box.evaluate.checking import check


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    register_toy(monkeypatch)


def checked(tmp_path, **changes):
    return check(toy_config(tmp_path, **changes))


def test_a_plain_run_gets_the_platforms_defaults(tmp_path):
    result = checked(tmp_path, episodes=1, video=None)
    assert (result.plan.suite, result.plan.task_name, result.plan.max_steps) == (
        "toy_easy",
        "reach",
        40,
    )
    assert (result.spec.name, result.plan.backend) == ("toy", "toy")
    assert result.fitting == ("toy",)


@pytest.mark.parametrize(
    ("episodes", "asked", "video"),
    [(1, None, "all"), (2, None, "none"), (2, "failures", "failures")],
)
def test_a_single_episode_is_filmed_unless_told_otherwise(tmp_path, episodes, asked, video):
    assert checked(tmp_path, episodes=episodes, video=asked).plan.video == video


def test_predictions_are_shown_in_videos_or_nowhere(tmp_path):
    shown = {"show_predictions": True}
    assert checked(tmp_path, episodes=1, video=None, **shown).plan.play(0, "/out").show_predictions
    assert checked(tmp_path, episodes=2, video="failures", **shown).plan.show_predictions
    assert not checked(tmp_path, episodes=1, video=None).plan.show_predictions
    with pytest.raises(UsageError, match="draws into videos, and none will be written"):
        checked(tmp_path, episodes=2, video=None, **shown)


def test_an_option_given_wins_over_the_suites_limit(tmp_path):
    assert checked(tmp_path, max_steps=9, suite="toy_hard").plan.max_steps == 9


def test_a_task_may_be_named_and_the_plan_says_both(tmp_path):
    plan = checked(tmp_path, task="reach_again").plan
    assert (plan.task, plan.task_name) == (1, "reach_again")


def test_a_task_may_have_a_limit_of_its_own_and_states_may_be_numbered_from_elsewhere(tmp_path):
    plan = checked(tmp_path, suite="toy_seeded", task="far").plan
    assert (plan.max_steps, plan.first_init_state) == (60, 1000)
    assert [plan.play(episode, "").init_state for episode in (0, 1)] == [1000, 1001]
    plan = checked(tmp_path, suite="toy_seeded", first_init_state=7, max_steps=5).plan
    assert (plan.max_steps, plan.first_init_state) == (5, 7)


def test_what_a_platform_requires_is_looked_at_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--assets-path", "assets")
    with pytest.raises(BadOption, match=f"no file or folder at {tmp_path}/assets"):
        checked(tmp_path, platform_arguments=words)
    (tmp_path / "assets").mkdir()
    with pytest.raises(AssetsMissing, match=f"no pictures.txt in {tmp_path}/assets") as caught:
        checked(tmp_path, platform_arguments=words)
    assert "toy-draw DIR" in caught.value.hint
    (tmp_path / "assets" / "pictures.txt").touch()
    # A wrong word is told first: assets take long to fetch.
    for wrong in ({"seed": -1}, {"max_steps": 0}, {"launcher": "docker"}):
        with pytest.raises(UsageError):
            checked(tmp_path, platform_arguments=("--needs-assets",), **wrong)
    plan = checked(tmp_path, platform_arguments=words).plan
    assert plan.platform_arguments == (f"--assets-path={tmp_path}/assets",)


def test_every_scene_of_a_run_is_looked_at_before_anything_starts(tmp_path):
    seeded = {"suite": "toy_seeded", "episodes": 2}
    assert checked(tmp_path, **seeded, first_init_state=999_998).plan.first_init_state == 999_998
    with pytest.raises(AssetsMissing, match="no picture of 1000000"):
        checked(tmp_path, **seeded, first_init_state=999_999)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"platform": "nowhere"}, "no platform called nowhere"),
        ({"backend": "nobody"}, "no backend called nobody"),
        ({"suite": "toy_none"}, "no suite called toy_none"),
        ({"task": 5}, "no task 5"),
        ({"task": -1}, "no task -1"),
        ({"task": "rech"}, "no task rech"),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(tmp_path, changes, said):
    with pytest.raises(UnknownName, match=said) as caught:
        checked(tmp_path, **changes)
    assert "rpent-box list" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"episodes": 7}, "6 init states"),
        ({"episodes": 0}, "0 episodes"),
        ({"execute_steps": 0}, "0 execute steps"),
        ({"threads": 0}, "0 threads"),
        ({"max_steps": 0}, "step limit of 0"),
        ({"start_timeout_s": 0.0}, "--start-timeout"),
        ({"prediction_timeout_s": float("nan")}, "--prediction-timeout"),
        ({"stall_timeout_s": float("inf")}, "--stall-timeout"),
        ({"backend_arguments": ("--colour", "red")}, "--colour"),
        ({"backend_arguments": ("--at-chunk", "many")}, "cannot be used"),
        ({"platform_arguments": ("--step-delay-s", "slow")}, "cannot be used"),
        ({"suite": "toy_gone"}, "no files"),
        ({"backend": None}, "needs a backend"),
    ],
)
def test_what_cannot_be_played_is_refused_before_anything_starts(tmp_path, changes, said):
    with pytest.raises(UsageError, match=said):
        checked(tmp_path, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint": "/weights"},
        {"python": "/usr/bin/python3"},
        {"root": "/tmp"},
        {"device": "cpu"},
        {"cuda_device": "0"},
        {"backend_arguments": ("--noise", "1")},
    ],
)
def test_an_endpoint_excludes_what_only_an_owned_worker_has(tmp_path, changes):
    borrowed = {"endpoint": "ipc:///tmp/w.sock", "python": None, **changes}
    with pytest.raises(UsageError, match="--endpoint excludes"):
        checked(tmp_path, **borrowed)


def test_a_borrowed_worker_need_not_be_named(tmp_path):
    result = checked(tmp_path, endpoint="ipc:///tmp/w.sock", python=None, backend=None)
    assert result.spec is None
    assert result.plan.backend is None


def test_a_backend_without_an_adapter_is_refused_with_those_that_fit(tmp_path, monkeypatch):
    from msgspec.structs import replace
    from rpent_box_toy import backend

    monkeypatch.setattr(backend, "BACKEND", replace(backend.BACKEND, platforms=("moon",)))
    with pytest.raises(BadOption, match="no adapter for toy; it has for: moon") as caught:
        checked(tmp_path)
    assert "Backends that fit toy: toy" in caught.value.hint


def test_a_backend_without_built_in_weights_needs_a_checkpoint(tmp_path, monkeypatch):
    from msgspec.structs import replace
    from rpent_box_toy import backend

    monkeypatch.setattr(backend, "BACKEND", replace(backend.BACKEND, needs_checkpoint=True))
    with pytest.raises(BadOption, match="no built-in weights"):
        checked(tmp_path)
    with pytest.raises(BadOption, match="no checkpoint at /nowhere"):
        checked(tmp_path, checkpoint="/nowhere")
    weights = str(tmp_path)
    assert checked(tmp_path, checkpoint=weights).plan.checkpoint == weights


def test_where_the_model_computes_is_part_of_the_plan(tmp_path, monkeypatch):
    from msgspec.structs import replace
    from rpent_box_toy import backend

    assert checked(tmp_path).plan.device == "cpu"
    assert checked(tmp_path).plan.threads == 1
    assert checked(tmp_path, threads=4).plan.threads == 4
    portable = replace(backend.BACKEND, needs_gpu=True, variants=("cpu",))
    monkeypatch.setattr(backend, "BACKEND", portable)
    assert checked(tmp_path).plan.device == "cuda"
    on_cpu = checked(tmp_path, device="cpu")
    assert (on_cpu.plan.device, on_cpu.needs.cpu_variant) == ("cpu", True)
    with pytest.raises(UsageError, match="exclude each other"):
        checked(tmp_path, device="cpu", cuda_device="0")
    borrowed = {"endpoint": "ipc:///tmp/w.sock", "python": None}
    assert checked(tmp_path, **borrowed).plan.device is None


def test_a_backend_may_borrow_a_service_instead_of_loading_a_checkpoint(tmp_path, monkeypatch):
    from msgspec.structs import replace
    from rpent_box_toy import backend

    class ThinOptions(Struct, frozen=True, kw_only=True):
        service: str = ""

    thin = replace(
        backend.BACKEND,
        options=ThinOptions,
        needs_gpu=True,
        needs_checkpoint=True,
        borrows="service",
    )
    monkeypatch.setattr(backend, "BACKEND", thin)
    words = ("--service=ws://there:1",)
    result = checked(tmp_path, backend_arguments=words)
    assert (result.needs.service, result.needs.network) == ("ws://there:1", True)
    assert result.plan.device == "cpu"
    with pytest.raises(UsageError, match="--service excludes --checkpoint"):
        checked(tmp_path, backend_arguments=words, checkpoint=str(tmp_path))
    with pytest.raises(BadOption, match="no built-in weights") as caught:
        checked(tmp_path)
    assert "or borrow a service: --service" in caught.value.hint


def test_a_checkpoint_that_is_only_a_name_is_not_looked_for(tmp_path, monkeypatch):
    from msgspec.structs import replace
    from rpent_box_toy import backend

    naming = replace(backend.BACKEND, needs_checkpoint=True, checkpoint_is="name")
    monkeypatch.setattr(backend, "BACKEND", naming)
    assert checked(tmp_path, checkpoint="org/model").plan.checkpoint == "org/model"


def test_an_interpreter_means_processes_and_excludes_containers(tmp_path):
    assert checked(tmp_path, launcher="auto").launcher == "process"
    with pytest.raises(UsageError, match="--python, --platform-python cannot be used"):
        checked(tmp_path, launcher="docker")
    plain = {"python": None, "platform_python": None}
    assert checked(tmp_path, launcher="docker", **plain).launcher == "docker"
    assert checked(tmp_path, launcher="auto", **plain).launcher == "auto"


@pytest.mark.parametrize("endpoint", ["", "nonsense", "tcp://host", "http://host:80"])
def test_what_is_no_endpoint_is_wrong_usage(tmp_path, endpoint):
    with pytest.raises(UsageError):
        checked(tmp_path, endpoint=endpoint, python=None, backend=None)
