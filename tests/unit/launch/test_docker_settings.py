# SPDX-License-Identifier: Apache-2.0
"""What the engine is told about a container, and what its answers mean; without an engine."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest
import requests
from tiny_boxes import tiny_program

from rpent_box.errors import EngineMissing, LaunchError
from rpent_box.launch.docker import container_settings, status_of
from rpent_box.launch.engine import Engine, translated
from rpent_box.launch.program import Mount


def engine(**more: Any) -> Any:
    traits = {"rootless": False, "remaps_users": False, "selinux": False}
    return SimpleNamespace(**{**traits, **more})


def settings(
    tmp_path: Path, *, of: Any = None, inherited: dict[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    program = tiny_program("a", "b", log=tmp_path / "log", **more)
    return container_settings(program, "0badc0de", of or engine(), inherited or {})


def test_a_container_is_confined(tmp_path: Path) -> None:
    told = settings(tmp_path)
    assert told["user"] == f"{os.getuid()}:{os.getgid()}"
    assert told["cap_drop"] == ["ALL"]
    assert told["security_opt"] == ["no-new-privileges"]
    assert told["read_only"] is True
    assert told["network_mode"] == "none"
    assert told["init"] is True
    assert set(told["tmpfs"]) == {"/tmp"}
    assert told["pids_limit"] > 0
    for opened in ("privileged", "cap_add", "devices", "ipc_mode", "pid_mode", "auto_remove"):
        assert opened not in told


def test_the_command_is_a_module_and_its_words(tmp_path: Path) -> None:
    assert settings(tmp_path)["command"] == ["tiny_program", "a", "b"]


def test_labels_say_whose_container_it_is(tmp_path: Path) -> None:
    labels = settings(tmp_path)["labels"]
    assert labels["rpent-box.box"] == "0badc0de"
    assert labels["rpent-box.role"] == "worker"
    assert labels["rpent-box.owner"] == str(os.getuid())


def test_models_are_offline_with_a_home_and_pinned_threads(tmp_path: Path) -> None:
    environment = settings(tmp_path, threads=2)["environment"]
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["HOME"] == "/tmp"
    assert environment["OMP_NUM_THREADS"] == "2"
    assert "PATH" not in environment


def test_of_the_callers_environment_a_container_sees_only_what_the_program_names(
    tmp_path: Path,
) -> None:
    defaults = {"MUJOCO_GL": "osmesa", "OTHER": "kept"}
    caller = {"MUJOCO_GL": "egl", "AWS_SECRET_ACCESS_KEY": "hush"}
    environment = settings(tmp_path, defaults=defaults, inherited=caller)["environment"]
    assert environment["MUJOCO_GL"] == "egl"
    assert environment["OTHER"] == "kept"
    assert "AWS_SECRET_ACCESS_KEY" not in environment


def test_logs_are_bounded(tmp_path: Path) -> None:
    log = settings(tmp_path)["log_config"]
    assert log.type == "json-file"
    assert set(log.config) == {"max-size", "max-file"}


def test_mounts_are_binds_that_never_make_what_is_missing(tmp_path: Path) -> None:
    (mount,) = settings(tmp_path, mounts=(Mount("/here", "/there"),))["mounts"]
    assert mount["Type"] == "bind"
    assert (mount["Source"], mount["Target"], mount["ReadOnly"]) == ("/here", "/there", True)


def test_gpus_are_asked_for_by_index_or_uuid(tmp_path: Path) -> None:
    assert "device_requests" not in settings(tmp_path)
    (request,) = settings(tmp_path, gpus=("GPU-1234",))["device_requests"]
    assert request.device_ids == ["GPU-1234"]
    assert request.capabilities == [["gpu"]]
    (request,) = settings(tmp_path, gpus=("all",))["device_requests"]
    assert request.count == -1


def test_the_network_and_cores_are_given_where_asked_for(tmp_path: Path) -> None:
    told = settings(tmp_path, network=True, cpus=(0, 2))
    assert told["network_mode"] == "host"
    assert told["cpuset_cpus"] == "0,2"


def test_a_rootless_engines_root_is_the_caller(tmp_path: Path) -> None:
    assert settings(tmp_path, of=engine(rootless=True))["user"] == "0:0"


def test_an_engine_that_remaps_users_is_told_not_to(tmp_path: Path) -> None:
    assert settings(tmp_path, of=engine(remaps_users=True))["userns_mode"] == "host"


def test_with_selinux_shared_directories_stay_readable(tmp_path: Path) -> None:
    options = settings(tmp_path, of=engine(selinux=True))["security_opt"]
    assert options == ["no-new-privileges", "label=disable"]


def test_out_of_memory_is_told_from_other_kills() -> None:
    state = {"ExitCode": 137, "OOMKilled": True, "Error": ""}
    assert "out of memory" in status_of(state).reason
    state["OOMKilled"] = False
    assert status_of(state).signal == "SIGKILL"
    assert "out of memory" not in status_of(state).reason


def test_what_the_engine_says_about_a_failed_start_is_the_reason() -> None:
    state = {"ExitCode": 127, "OOMKilled": False, "Error": "python3: not found"}
    assert status_of(state).reason == "python3: not found"


def test_an_engine_that_is_too_old_is_refused() -> None:
    client = SimpleNamespace(
        version=lambda: {"Version": "19.03.15", "ApiVersion": "1.40"}, info=lambda: {}
    )
    with pytest.raises(LaunchError, match=r"19\.03\.15 .* too old; wanted 20\.10") as caught:
        Engine(client, Path("/var/run/docker.sock"))
    assert "--launcher process" in caught.value.hint


def test_an_engine_that_stops_answering_is_an_engine_missing() -> None:
    with pytest.raises(EngineMissing, match="while stopping it"), translated("stopping it"):
        raise requests.ConnectionError("Connection aborted")
    with pytest.raises(LaunchError, match="refused while"), translated("creating it"):
        raise docker.errors.APIError("no", explanation="disk is full")
