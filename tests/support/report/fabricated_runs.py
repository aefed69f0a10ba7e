# SPDX-License-Identifier: Apache-2.0
"""Folders of runs and evaluations that were never played: the same bytes for the same words."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from rpent_box.contracts.checkpoint import CheckpointFile, CheckpointManifest
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.control_messages import Restart
from rpent_box.contracts.messages import Figures, Histogram
from rpent_box.contracts.meta import ModelMeta, PlatformMeta
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.manifest import (
    EvalManifest,
    FailedAttempt,
    Place,
    Session,
    write_eval_manifest,
)
from rpent_box.evaluate.scale.plan import EvalPlan, Job, TaskPlan
from rpent_box.sim.manifest import (
    HostFacts,
    Plan,
    RunManifest,
    SimulatorFacts,
    WorkerFacts,
    write_manifest,
)
from rpent_box.sim.results import EpisodeRow, episode_folder
from rpent_box.version import PROTOCOL_VERSION

OBJECTS = (
    *("black bowl", "cookie box", "ramekin", "wine bottle", "cream cheese", "alphabet soup"),
    *("butter", "milk", "moka pot", "white mug"),
)
STEPS = 220

HOST = HostFacts(
    rpent_box="0.1.0",
    protocol=PROTOCOL_VERSION,
    python="3.11.7",
    system="Linux-6.1-x86_64",
    cpu="AMD EPYC 9454",
    cores=16,
    git_revision="0123456789abcdef0123456789abcdef01234567",
)
META = ModelMeta(
    kind="wam",
    backend="mini-wam",
    checkpoint="built-in",
    control=control_spec(LIBERO_OSC_DELTA),
    camera_roles=("primary", "wrist"),
    proprio_schema={"eef_position": 3, "eef_quaternion_xyzw": 4, "gripper_qpos": 2},
    action_horizon=10,
    execute_steps=10,
    max_batch=16,
    prediction_timeout_s=30.0,
    provenance={"weights_sha256": "5b" * 32, "licence": "Apache-2.0"},
)
SIMULATOR = SimulatorFacts(
    meta=PlatformMeta(
        name="libero",
        controls=(control_spec(LIBERO_OSC_DELTA),),
        camera_roles=("primary", "wrist"),
        image_size=(256, 256),
        proprio_schema={"eef_position": 3, "eef_quaternion_xyzw": 4, "gripper_qpos": 2},
    ),
    versions={"rpent-box": "0.1.0", "python": "3.11.7", "mujoco": "2.3.7", "robosuite": "1.4.0"},
    renderer="osmesa: Mesa/X.org, llvmpipe (LLVM 15.0.6, 256 bits)",
)
WORKER = WorkerFacts(meta=META, rpent_box="0.1.0")
CHECKPOINT = CheckpointManifest(
    backend="mini-wam",
    platform="libero",
    checkpoint="step_30000",
    files=(CheckpointFile(role="weights", path="model.safetensors", size=4711, sha256="c4" * 32),),
    facts={"normalisation": "min/max"},
    suites=("libero_spatial",),
)

Change = Callable[[Job, EpisodeRow], EpisodeRow]


def as_it_is(job: Job, row: EpisodeRow) -> EpisodeRow:
    return row


def plan_of(
    suites: Mapping[str, int], *, episodes: int = 10, seeds: tuple[int, ...] = (7,)
) -> EvalPlan:
    """Return the plan of `episodes` per task and seed, of so many tasks of each suite."""
    tasks = tuple(
        TaskPlan(
            suite=suite,
            task=task,
            name=f"pick_up_the_{OBJECTS[task % 10].replace(' ', '_')}_and_place_it_on_the_plate",
            first_init_state=0,
            episodes=episodes,
            max_steps=STEPS + 60 * number,
        )
        for number, (suite, count) in enumerate(suites.items())
        for task in range(count)
    )
    return EvalPlan(
        platform="libero",
        tasks=tasks,
        seeds=seeds,
        execute_steps=None,
        video="failures",
        backend="mini-wam",
        device="cpu",
        threads=1,
    )


def row_for(job: Job, *, run: str, skill: float, salt: str = "") -> EpisodeRow:
    """Return how `job` went, with `skill` as the chance of success; its scene is the job's own."""
    chance = random.Random(f"{job.key}/{salt}")
    ease = 1.0 - 0.07 * (job.task % 7)
    success = chance.random() < skill * ease
    steps = job.max_steps if not success else int(job.max_steps * chance.uniform(0.28, 0.85))
    predictions = -(-steps // 10)
    stages = {
        "simulate": 0.009 * steps,
        "render": 0.145 * predictions * chance.uniform(0.9, 1.2),
        "transport": 0.0006 * predictions,
        "queue": 0.002 * predictions,
        "encode": 0.0005 * predictions,
        "infer": 0.012 * predictions,
        "decode": 0.0002 * predictions,
        "other": 0.01,
    }
    return EpisodeRow(
        run=run,
        finished_at="2026-11-30T10:00:00+00:00",
        session=0,
        simulator=str(job.episode % 4),
        suite=job.suite,
        task=job.task,
        init_state=job.init_state,
        episode=job.episode,
        seed=job.seed,
        instruction=f"pick up the {OBJECTS[job.task % 10]} and place it on the plate",
        success=success,
        steps=steps,
        predictions=predictions,
        execute_steps=10,
        max_steps=job.max_steps,
        wall_s=sum(stages.values()),
        setup_s=0.18,
        stages_s=stages,
        actions_sha256=_hash(job, salt, steps),
        first_frames_sha256=_hash(job, "scene"),
    )


def fabricate_evaluation(
    parent: Path,
    name: str,
    *,
    plan: EvalPlan | None = None,
    skill: float = 0.9,
    salt: str = "",
    played: int | None = None,
    change: Change = as_it_is,
    failed: Sequence[int] = (),
    files: Mapping[str, bytes] | None = None,
    **manifest: object,
) -> Path:
    """Write an evaluation's folder and return it.

    `played` episodes of the plan have a result (None: all), but for those in `failed`, which ended
    in an error. `files` (name → bytes) are put beside each failure: `episode.mp4`, `episode.jpg`.
    `manifest` replaces fields of `eval.json`.
    """
    folder = parent / name
    folder.mkdir(parents=True)
    plan = plan or plan_of({"libero_spatial": 10})
    jobs = plan.jobs()
    rows = [
        change(job, row_for(job, run=name, skill=skill, salt=salt))
        for job in jobs[: len(jobs) if played is None else played]
        if job.episode not in failed
    ]
    rows = [_with_files(folder, row, files or {}) for row in rows]
    attempts = [_attempt(job) for job in jobs if job.episode in failed]
    _write_lines(folder / "results.jsonl", rows)
    _write_lines(folder / "failed.jsonl", attempts)
    complete = len(rows) == len(jobs)
    standard = EvalManifest(
        run=name,
        status="complete" if complete else "incomplete",
        started_at="2026-11-30T09:50:00+00:00",
        finished_at="2026-11-30T10:00:00+00:00",
        plan=plan,
        config=EvalConfig(platform="libero", suites=plan.suites, backend="mini-wam"),
        simulator=SIMULATOR,
        worker=WORKER,
        checkpoint=CHECKPOINT,
        episodes=len(jobs),
        episodes_played=len(rows),
        successes=sum(row.success for row in rows),
        restarts=sum(len(row.restarts) for row in rows),
        sessions=(session_of(rows),),
    )
    write_eval_manifest(folder, replace(standard, **manifest))
    return folder


def session_of(rows: Sequence[EpisodeRow], *, envs: int = 4) -> Session:
    """Return the sitting in which `rows` were played on `envs` simulators."""
    predicting = sum(
        row.stages_s.get(stage, 0.0)
        for row in rows
        for stage in ("transport", "queue", "encode", "infer", "decode")
    )
    inferring = sum(row.stages_s.get("infer", 0.0) for row in rows)
    playing = sum(row.setup_s + row.wall_s + row.video_s for row in rows)
    wall_s = playing / envs + 8.0
    return Session(
        number=0,
        started_at="2026-11-30T09:50:00+00:00",
        ended_at="2026-11-30T10:00:00+00:00",
        ended="complete",
        command=("rpent-box", "eval", "--suite", "libero_spatial", "--envs", "auto"),
        launcher="process",
        launcher_why="asked for",
        start_s=6.0,
        wall_s=wall_s,
        episodes=len(rows),
        places=(
            Place(
                name="",
                host=HOST,
                envs=envs,
                envs_why="16 cores, 4 of them busy with the worker",
                worker=_figures(wall_s - 6.0, inferring, sum(row.predictions for row in rows)),
                simulators_s={
                    "starting": 4.5 * envs,
                    "resetting": sum(row.setup_s for row in rows),
                    "simulate": sum(row.stages_s.get("simulate", 0.0) for row in rows),
                    "render": sum(row.stages_s.get("render", 0.0) for row in rows),
                    "predicting": predicting,
                    "video": sum(row.video_s for row in rows),
                    "idle": 1.5 * envs,
                },
            ),
        ),
    )


def fabricate_run(
    parent: Path, name: str, *, task: int = 0, episodes: int = 3, skill: float = 0.9, salt: str = ""
) -> Path:
    """Write the folder of a run of one task and return it."""
    folder = parent / name
    folder.mkdir(parents=True)
    plan = Plan(
        platform="libero",
        suite="libero_spatial",
        task=task,
        task_name=f"pick_up_the_{OBJECTS[task].replace(' ', '_')}",
        episodes=episodes,
        first_init_state=0,
        seed=7,
        max_steps=STEPS,
        execute_steps=None,
        video="all",
        backend="mini-wam",
        device="cpu",
        threads=1,
    )
    jobs = [
        Job(
            episode=number,
            suite=scene.suite,
            task=scene.task,
            init_state=scene.init_state,
            seed=scene.seed,
            max_steps=plan.max_steps,
        )
        for number, scene in enumerate(plan.scenes())
    ]
    rows = [row_for(job, run=name, skill=skill, salt=salt) for job in jobs]
    _write_lines(folder / "results.jsonl", rows)
    write_manifest(
        folder,
        RunManifest(
            run=name,
            status="complete",
            started_at="2026-11-30T09:50:00+00:00",
            finished_at="2026-11-30T09:51:00+00:00",
            command=("rpent-box", "run"),
            plan=plan,
            launcher="process",
            launcher_why="asked for",
            host=HOST,
            simulator=SIMULATOR,
            worker=WORKER,
            episodes_played=len(rows),
            successes=sum(row.success for row in rows),
        ),
    )
    return folder


def restart(*, why: str = "hung", phase: str = "acting", step: int = 40) -> Restart:
    return Restart(
        why=why,
        reason="no sign of progress for 600 s",
        phase=phase,
        step=step,
        silent_s=600.0,
        at="2026-11-30T09:55:00+00:00",
        log="simulator-1.log",
    )


def _figures(ready_s: float, busy_s: float, served: int) -> Figures:
    four, two = served // 6, served // 8
    one = served - 4 * four - 2 * two
    inferences = four + two + one
    return Figures(
        ready_s=ready_s,
        busy_s=min(busy_s, 0.93 * ready_s),
        gathering_s=0.02 * ready_s,
        idle_s=0.98 * ready_s - min(busy_s, 0.93 * ready_s),
        served=served,
        batches={1: one, 2: two, 4: four},
        infer_s=Histogram(
            bounds=(0.005, 0.01, 0.02, 0.05, 0.1),
            counts=(0, inferences // 3, inferences - inferences // 3 - 2, 2, 0, 0),
            total=busy_s,
        ),
        queue_s=Histogram(
            bounds=(0.001, 0.002, 0.005, 0.01),
            counts=(served // 2, served - served // 2 - 3, 2, 1, 0),
            total=0.002 * served,
        ),
        max_batch=16,
        max_wait_ms=2.0,
        tuned=True,
    )


def _with_files(folder: Path, row: EpisodeRow, files: Mapping[str, bytes]) -> EpisodeRow:
    if row.success or not files:
        return row
    for name, data in files.items():
        (episode_folder(folder, row.episode) / name).write_bytes(data)
    return replace(
        row,
        video="episode.mp4" if "episode.mp4" in files else None,
        video_s=0.8 if "episode.mp4" in files else 0.0,
        thumbnail="episode.jpg" if "episode.jpg" in files else None,
    )


def _attempt(job: Job) -> FailedAttempt:
    return FailedAttempt(
        episode=job.episode,
        suite=job.suite,
        task=job.task,
        init_state=job.init_state,
        seed=job.seed,
        code="simulator",
        message="the simulator raised: MujocoException: unknown warning type, Time = 2.3600.",
        hint="--verbose shows the traceback.",
        session=0,
        simulator="2",
        at="2026-11-30T09:56:12+00:00",
    )


def _write_lines(path: Path, lines: Sequence[msgspec.Struct]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def _hash(job: Job, *salt: object) -> str:
    words = (job.suite, job.task, job.init_state, job.seed, *salt)
    return hashlib.sha256(repr(words).encode()).hexdigest()
