# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from rpent_box.cli.app import app
from rpent_box.cli.catalogue import Prepared
from rpent_box.cli.checks import channels, examination, machine, programs
from rpent_box.cli.checks.finding import Finding, fail, ok, warn
from rpent_box.errors import LaunchError
from rpent_box.launch.box import Box
from rpent_box.launch.program import Mount, Program
from rpent_box.plugins import find_platform
from rpent_box.sim.check import PlatformCheck, check_platform
from rpent_box.transport.segment import Segment

DRAWN = PlatformCheck(platform="toy", renderer="egl: NVIDIA", reset_s=0.5, compared=True)


def test_this_machine_passes_frames_and_messages() -> None:
    assert channels.check_ring().status == "ok"
    assert channels.check_shm_size().status in ("ok", "warn")


def test_a_socket_answers_in_the_runtime_directory(tmp_path: Path) -> None:
    finding = channels.check_socket(tmp_path / "rooms")
    assert finding.status == "ok", finding.message
    assert list((tmp_path / "rooms").iterdir()) == []


def test_a_runtime_directory_that_cannot_be_used_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finding = channels.check_socket(tmp_path / "file" / "rooms")
    assert finding.status == "fail"
    assert "RPENT_BOX_RUNTIME_DIR" in finding.next_step


@pytest.mark.parametrize(("free_mib", "status"), [(4, "fail"), (64, "warn"), (1024, "ok")])
def test_little_shared_memory_is_a_warning_and_too_little_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free_mib: int, status: str
) -> None:
    room = SimpleNamespace(f_blocks=4096, f_bavail=free_mib, f_frsize=2**20)
    monkeypatch.setattr(os, "statvfs", lambda path: room)
    finding = channels.check_shm_size(tmp_path)
    assert finding.status == status
    assert f"{free_mib} MiB free of 4096 MiB" in finding.message


def test_the_machine_is_described() -> None:
    assert sys.executable in machine.check_python().message
    assert f"{os.cpu_count()} cores" in machine.check_memory().message
    assert "GiB free at" in machine.check_disk(Path.cwd()).message
    assert machine.check_user().status == ("warn" if os.geteuid() == 0 else "ok")


def test_dead_boxes_and_segments_are_found_and_left_alone(tmp_path: Path) -> None:
    rooms = tmp_path / "rooms"
    (rooms / "1a2b3c4d").mkdir(parents=True)
    (rooms / "notes").mkdir()
    segment = Path(f"/dev/shm/rpent-box.{secrets.token_hex(4)}.sim-0")
    segment.write_bytes(b"x")
    try:
        finding = machine.check_leftovers(rooms)
        assert segment.exists()
    finally:
        segment.unlink()
    assert finding.status == "warn"
    assert finding.next_step == "rpent-box gc"
    assert "dead boxes: 1a2b3c4d; " in finding.message
    assert segment.name in finding.message
    assert "notes" not in finding.message
    assert (rooms / "1a2b3c4d").exists()


def test_what_is_in_use_is_no_leftover(tmp_path: Path) -> None:
    with Box.create(tmp_path) as box:
        name = box.paths.segment_name("sim-0")
        with Segment.create(name, 4096, grants=box.paths.grants):
            assert box.id not in machine.check_leftovers(tmp_path).message


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("prepared", "status"),
    [
        (Prepared(image="ready", environment="missing"), "ok"),
        (Prepared(image="no engine", environment="ready"), "ok"),
        (Prepared(image="stale", environment="missing"), "warn"),
        (Prepared(image="missing", environment="missing"), "warn"),
        (Prepared(image="no recipe", environment="no recipe"), "ok"),
    ],
)
def test_what_is_not_built_is_a_warning_with_the_command(prepared: Prepared, status: str) -> None:
    finding = programs.check_prepared("backend", "toy", lambda kind, name: prepared)
    assert finding.status == status
    assert finding.next_step == ("rpent-box build toy" if status == "warn" else "")


@pytest.mark.usefixtures("toy")
def test_a_model_that_brings_no_weights_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    from msgspec.structs import replace
    from rpent_box_toy import backend

    monkeypatch.setattr(backend, "BACKEND", replace(backend.BACKEND, needs_checkpoint=True))
    missing = Prepared(image="missing", environment="missing")
    finding = programs.check_prepared("backend", "toy", lambda kind, name: missing)
    assert finding.status == "ok"
    assert "to use it: rpent-box build toy" in finding.message


@pytest.mark.usefixtures("toy")
def test_a_model_that_cannot_be_imported_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    from rpent_box_toy import backend

    monkeypatch.delattr(backend, "BACKEND")
    missing = Prepared(image="missing", environment="missing")
    finding = programs.check_prepared("backend", "toy", lambda kind, name: missing)
    assert finding.status == "fail"
    assert "cannot be imported" in finding.message


def test_a_drawn_frame_names_its_renderer() -> None:
    drawn, golden = programs.findings_of(DRAWN)
    assert drawn == ok("render toy", "egl: NVIDIA; a scene is built and drawn in 0.5 s")
    assert golden.status == "ok"


def test_software_rendering_is_a_warning() -> None:
    found = PlatformCheck(platform="toy", renderer="osmesa: Mesa, llvmpipe")
    (drawn,) = programs.findings_of(found)
    assert drawn.status == "warn"
    assert "docs/troubleshooting.md" in drawn.next_step
    assert "software rendering" in drawn.message


def test_another_physics_engine_is_a_failure_that_names_the_versions() -> None:
    found = PlatformCheck(
        platform="toy",
        renderer="egl",
        versions={"mujoco": "3.4.0"},
        differs=("physics: the settled state is off by 0.1",),
        compared=True,
    )
    _, golden = programs.findings_of(found)
    assert golden.status == "fail"
    assert "off by 0.1" in golden.message
    assert "mujoco 3.4.0" in golden.message


@pytest.mark.parametrize(
    "found",
    [
        PlatformCheck(platform="toy", error="no renderer", hint="install libosmesa6"),
        PlatformCheck(platform="toy", renderer="osmesa", blank=("wrist",)),
    ],
)
def test_no_frame_or_a_blank_one_is_a_failure(found: PlatformCheck) -> None:
    (finding,) = programs.findings_of(found)
    assert finding.status == "fail"
    assert finding.next_step == found.hint


@pytest.mark.usefixtures("toy")
def test_the_check_of_a_platform_draws_a_frame_and_survives_its_errors() -> None:
    toy = find_platform("toy")
    drawn = check_platform(toy)
    assert (drawn.error, drawn.renderer, drawn.compared) == ("", "numpy", False)
    assert drawn.blank == ("primary", "wrist")

    watched = replace(toy, check=lambda platform: ["physics: it floats"])
    assert check_platform(watched).differs == ("physics: it floats",)

    def broken(options: object) -> object:
        raise RuntimeError("no display")

    failed = check_platform(replace(toy, open=broken))
    assert failed.error == "RuntimeError: no display"
    assert "Traceback" in failed.detail


def test_the_answer_is_found_behind_what_a_simulator_prints() -> None:
    text = 'warning: GL\n{"platform": "toy", "renderer": "egl"}\nbye\n'
    running = SimpleNamespace(last_log_lines=lambda count: text, describe=lambda: "it")
    assert programs.read_check(running).renderer == "egl"  # type: ignore[arg-type]


def test_no_answer_at_all_brings_the_last_words() -> None:
    running = SimpleNamespace(last_log_lines=lambda count: "Killed\n", describe=lambda: "it")
    with pytest.raises(LaunchError, match="ended without an answer") as caught:
        programs.read_check(running)  # type: ignore[arg-type]
    assert caught.value.detail == "Killed"


def invoke(
    monkeypatch: pytest.MonkeyPatch, findings: list[Finding], *words: str
) -> tuple[int, str]:
    monkeypatch.setattr("rpent_box.cli.doctor.examine", lambda *_: iter(findings))
    result = CliRunner().invoke(app, ["doctor", *words])
    return result.exit_code, result.stdout


def test_warnings_leave_the_machine_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = invoke(monkeypatch, [ok("a", "fine"), warn("b", "so so", "do this")])
    assert code == 0
    assert "warn  b                so so\n                       -> do this\n" in text
    assert text.endswith("Ready, with warnings about: b.\n")


def test_a_failure_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = invoke(monkeypatch, [fail("a", "broken\nin two ways", "mend it")])
    assert code == 1
    assert text.endswith("Not ready: a.\n")


def test_json_prints_all_findings_as_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = invoke(monkeypatch, [fail("a", "broken", "mend it")], "--json")
    assert code == 1
    assert json.loads(text) == {
        "ready": False,
        "findings": [{"name": "a", "status": "fail", "message": "broken", "next_step": "mend it"}],
    }


def test_an_unknown_platform_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(app, ["doctor", "--platform", "nowhere", "--no-render"])
    assert result.exit_code == 2
    assert "no platform called nowhere" in result.stderr


@pytest.mark.usefixtures("toy")
def test_rendering_is_tried_only_where_it_can_work(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def render(plugin: object, words: object, **_: object) -> list[Finding]:
        tried.append(plugin.name)  # type: ignore[attr-defined]
        return []

    monkeypatch.setattr(examination, "check_rendering", render)
    monkeypatch.setattr(examination, "platform_names", lambda: ["toy"])
    monkeypatch.setattr(examination, "check_docker_command", lambda environ: ok("d", ""))

    def examine(prepared: Prepared, **asked: object) -> list[str]:
        tried.clear()
        settings = {"platform": None, "render": True, "launcher": "auto", "platform_python": None}
        what = examination.Examination(
            **{**settings, **asked},
            timeout_s=1.0,
            platform_cuda_device=None,
            runtime_dir=None,  # type: ignore[arg-type]
        )
        list(examination.examine(what, lambda kind, name: prepared, {}))
        return list(tried)

    image = Prepared(image="ready", environment="missing")
    environment = Prepared(image="missing", environment="ready")
    assert examine(image) == ["toy"]
    assert examine(image, launcher="process") == []
    assert examine(environment) == []
    assert examine(environment, launcher="process") == ["toy"]
    assert examine(environment, platform="toy") == ["toy"]
    assert examine(image, render=False) == []


@pytest.mark.usefixtures("toy")
def test_missing_assets_are_a_warning_with_what_fetches_them(tmp_path: Path) -> None:
    toy = find_platform("toy")
    (tmp_path / "pictures.txt").touch()
    words = (f"--assets-path={tmp_path}",)
    assert programs.check_assets(toy, words) == [ok("assets toy", "all there")]
    (missing,) = programs.check_assets(toy, ("--needs-assets",))
    assert (missing.status, missing.name) == ("warn", "assets toy")
    assert "toy-draw DIR" in missing.next_step
    (nowhere,) = programs.check_assets(toy, ("--assets-path=/nowhere",))
    assert nowhere.status == "fail"
    assert "--toy-assets-path PATH" in nowhere.next_step
    assert programs.check_assets(replace(toy, require=None), ("--needs-assets",)) == []


def test_without_assets_the_report_says_what_was_compared_and_what_was_not() -> None:
    found = PlatformCheck(
        platform="toy",
        renderer="lavapipe",
        missing="there are no meshes",
        hint="fetch-meshes DIR",
        compared=True,
    )
    drawn, golden = programs.findings_of(found)
    assert drawn == warn(
        "render toy",
        "lavapipe; no scene of its tasks could be drawn: there are no meshes",
        "fetch-meshes DIR",
    )
    assert golden.status == "ok"
    assert "a known scene that needs no assets is as recorded" in golden.message
    other = replace(found, differs=("physics: it floats",), versions={"sapien": "9"})
    assert programs.findings_of(other)[1].status == "fail"


@pytest.mark.usefixtures("toy")
def test_a_variable_that_leads_nowhere_fails_its_platform_and_no_other_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(examination, "check_docker_command", lambda environ: ok("d", ""))
    asked = examination.Examination(
        platform="toy",
        render=False,
        launcher="auto",
        platform_python=None,
        platform_cuda_device=None,
        timeout_s=1.0,
        runtime_dir=None,
    )
    missing = Prepared(image="missing", environment="missing")

    def findings(environ: dict[str, str]) -> list[Finding]:
        return list(examination.examine(asked, lambda kind, name: missing, environ))

    assert findings({})[-1] == ok("assets toy", "all there")
    last = findings({"TOY_ASSETS_PATH": "/nowhere"})[-1]
    assert (last.name, last.status) == ("options toy", "fail")
    assert "TOY_ASSETS_PATH" in last.message


@pytest.mark.usefixtures("toy")
def test_a_platforms_options_reach_the_program_that_draws(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = []

    def start(program: Program, box: object) -> object:
        started.append(program)
        raise LaunchError("far enough")

    launcher = SimpleNamespace(name="docker", view="container", start=start)
    monkeypatch.setattr(programs, "choose_launcher", lambda asked: (launcher, ""))
    toy = replace(find_platform("toy"), recipe="bricks")
    words = (f"--assets-path={tmp_path}", "--needs-assets")
    (finding,) = programs.check_rendering(
        toy,
        words,
        launcher="auto",
        python=None,
        cuda_device=None,
        timeout_s=1.0,
        runtime_dir=str(tmp_path / "rooms"),
    )
    assert finding.message == "far enough"
    (program,) = started
    assert program.arguments == ("toy", *words)
    assert Mount(str(tmp_path), str(tmp_path)) in program.mounts
    assert "sim-bricks:" in program.image


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--platform", "toy", "--toy-colour", "red"), "the platform toy has no option colour"),
        (("--platform", "toy", "--colour", "red"), "there is no option --colour"),
        (("--platform", "toy", "--platform-option", "steps=2"), "has no option steps"),
        (("--platform-option", "needs_assets=true"), "Name the platform: --platform NAME"),
        (("--colour",), "Name the platform: --platform NAME"),
    ],
)
def test_options_that_are_no_platforms_are_wrong_usage(words: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(app, ["doctor", "--no-render", *words])
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.usefixtures("toy")
def test_a_platforms_options_are_understood_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def examine(what: examination.Examination, *_: object) -> Iterator[Finding]:
        asked.append(what)
        return iter(())

    monkeypatch.setattr("rpent_box.cli.doctor.examine", examine)
    own = ["--toy-assets-path", "/a", "--platform-option", "needs_assets=true"]
    result = CliRunner().invoke(app, ["doctor", "--platform", "toy", *own])
    assert result.exit_code == 0, result.stderr
    assert asked[0].platform_words == ("--assets-path=/a", "--needs-assets")
