# SPDX-License-Identifier: Apache-2.0
"""An evaluation that is only written down: its plan, its programs, and outcomes as if played."""

from msgspec.structs import replace
from rpent_box_toy.backend import META as MODEL
from rpent_box_toy.platform import META as PLATFORM

from rpent_box.contracts.checkpoint import CheckpointFile, CheckpointManifest
from rpent_box.contracts.control_messages import EpisodePlayed
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.plan import EvalPlan, TaskPlan
from rpent_box.evaluate.scale.record import EvalRecord
from rpent_box.sim.manifest import SimulatorFacts, WorkerFacts
from rpent_box.sim.record import Started


def task(suite, index, episodes=2):
    return TaskPlan(
        suite=suite,
        task=index,
        name=f"task {index}",
        first_init_state=0,
        episodes=episodes,
        max_steps=40,
    )


PLAN = EvalPlan(
    platform="toy",
    tasks=(task("toy_easy", 0), task("toy_easy", 1), task("toy_hard", 0)),
    seeds=(7, 8),
    execute_steps=None,
    video="none",
    backend="toy",
)
JOBS = PLAN.jobs()
STARTED = Started(launcher="process", why="no engine", command=("rpent-box", "eval"))
SIMULATOR = SimulatorFacts(meta=PLATFORM, versions={"mujoco": "3.3.1"}, renderer="osmesa")
WORKER = WorkerFacts(meta=MODEL, rpent_box="0.1.0")
IMAGES = {"worker": "toy sha256:1", "simulator": "toy-sim sha256:2"}
CHECKPOINT = CheckpointManifest(
    backend="toy",
    platform="toy",
    checkpoint="toys",
    files=(CheckpointFile(role="weights", path="a.pt", size=3, sha256="a" * 64),),
)


def played(job, **changes):
    made = EpisodePlayed(
        suite=job.suite,
        task=job.task,
        init_state=job.init_state,
        episode=job.episode,
        seed=job.seed,
        instruction="go",
        success=job.episode % 2 == 0,
        steps=3,
        predictions=1,
        execute_steps=4,
        max_steps=40,
        wall_s=0.1,
        setup_s=0.1,
        stages_s={},
        actions_sha256=f"{job.episode:064d}",
        first_frames_sha256="",
    )
    return replace(made, **changes)


def config(folder, **changes):
    return EvalConfig(platform="toy", backend="toy", output_dir=str(folder), **changes)


def begun(folder, **changes):
    record = EvalRecord.create(PLAN, config(folder, **changes))
    record.begin(STARTED)
    return record


def resumed(record, plan=PLAN, **changes):
    return EvalRecord.resume(record.run_dir, plan, config(record.run_dir.parent, **changes))


def play(record, jobs):
    for job in jobs:
        assert record.add(played(job), simulator="0") is not None
