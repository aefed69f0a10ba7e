# SPDX-License-Identifier: Apache-2.0
"""Where things lie in a folder of demonstrations, and what the columns are.

It is LeRobot's dataset layout v3.0, with one data file and one video per camera for each episode,
so that processes write side by side and a stopped run goes on. Episode `n` of the recipe lies in
chunk `n // 1000`, file `n % 1000`:

    data/chunk-000/file-012.parquet                              one row per decision, 0.25 s apart
    videos/observation.images.primary/chunk-000/file-012.mp4     one frame per row, in order
    videos/observation.images.wrist/chunk-000/file-012.mp4
    meta/rpent_box.json                  the recipe: everything that decides what the folder holds
    meta/rpent_box/episode-000012.json   an episode's record, written last: it is there, or is not
    meta/info.json, meta/stats.json, meta/tasks.parquet, meta/episodes/chunk-000/file-000.parquet
                                         LeRobot's own, written at the end; info.json is the last

Columns of a data file, in this order. `list[9]` is Arrow's fixed_size_list<float>[9]; `list[10, 7]`
is list<list<float>>, 10 lists of 7, as `datasets.Array2D` stores it:

    observation.state   float32 list[9]      eef_position (m, world), eef_quaternion_xyzw,
                                             gripper_qpos (m)
    action              float32 list[10, 7]  what the expert would do in the next ten control steps
    executed_action     float32 list[5, 7]   what was done until the next row; zeros in the last row
    progress            float32              0 to 1, how much of the task is done
    thing_position      float32 list[3]      the point to go to first, m, world
    goal_position       float32 list[3]      the point to bring things to, m, world
    student_acts        bool                 a student chose the actions, the expert the labels
    next.done           bool                 true in the last row
    timestamp           float32              s, frame_index / 4: also the time of the video's frame
    frame_index         int64                0, 1, … within the episode
    episode_index       int64                0, 1, … without gaps in a finished folder
    index               int64                of the row in the whole dataset
    task_index          int64                the sentence that the student is told: a row of
                                             meta/tasks.parquet

The frames are 256x256, upright, h264 in yuv420p. meta/tasks.parquet has the columns `task_index`
int64 and `task`, the sentence (pandas' index).

meta/episodes has one row per episode with LeRobot's columns (`episode_index`, `tasks`, `length`,
`data/chunk_index`, `data/file_index`, `dataset_from_index`, `dataset_to_index`, for each camera
`videos/<key>/chunk_index`, `…/file_index`, `…/from_timestamp`, `…/to_timestamp`, and `stats/…`),
and with these of its own:

    rpent_box/number         int64         the episode's number in the recipe
    rpent_box/lesson         string        `libero_spatial-3-says-9`
    rpent_box/solved         bool
    rpent_box/level          float64       how much the expert was disturbed: 0, 0.6 or 1 times the
                                           recipe's `noise`
    rpent_box/student        bool          a student acted
    rpent_box/initial_state  list<double>  the simulator's state after settling: time, positions,
                                           velocities

Until a folder is finished, three columns of its data files are preliminary: `index` is a row's
number within its episode, `episode_index` the episode's number in the recipe, `task_index` is 0.
"""

from __future__ import annotations

from pathlib import Path

FPS = 4
"""Decisions per second: every fifth control step of 20 Hz."""
IMAGE_SIZE = 256
FILES_PER_CHUNK = 1000

DATA_PATTERN = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATTERN = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"

RECIPE = "meta/rpent_box.json"
RECORDS = "meta/rpent_box"
INFO = "meta/info.json"
STATISTICS = "meta/stats.json"
TASKS = "meta/tasks.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"


def place_of(number: int) -> tuple[int, int]:
    """Return chunk and file of the episode with this number in the recipe."""
    return divmod(number, FILES_PER_CHUNK)


def data_path(number: int) -> Path:
    chunk, file = place_of(number)
    return Path(DATA_PATTERN.format(chunk_index=chunk, file_index=file))


def video_path(key: str, number: int) -> Path:
    chunk, file = place_of(number)
    return Path(VIDEO_PATTERN.format(video_key=key, chunk_index=chunk, file_index=file))


def record_path(number: int) -> Path:
    return Path(RECORDS) / f"episode-{number:06d}.json"
