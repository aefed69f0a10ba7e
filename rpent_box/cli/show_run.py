# SPDX-License-Identifier: Apache-2.0
"""A finished run as text: success, steps, where the time went, where the files are."""

from __future__ import annotations

from rpent_box.cli.tables import LABEL, labelled, percent, remarked, render_table, seconds
from rpent_box.evaluate.summary import RunSummary, episode_table
from rpent_box.evaluate.watchdog import in_words


def render_summary(summary: RunSummary) -> str:
    """Return the screen that ends `rpent-box run`."""
    parts = [_heading(summary), _outcome(summary), remarked(summary.episodes), _restarts(summary)]
    parts += [_times(summary), _files(summary)]
    return "\n".join(part for part in parts if part)


def _heading(summary: RunSummary) -> str:
    model = f"{summary.model.backend} ({summary.model.checkpoint})"
    where = f"borrowed at {summary.endpoint}" if summary.endpoint else f"by {summary.launcher}"
    others = len({row.instruction for row in summary.episodes} - {summary.instruction})
    more = f" (and {others} other sentence{'s' * (others > 1)}, by scene)" if others else ""
    return (
        f"\n{summary.platform}, {summary.suite}, task {summary.task}: {summary.instruction}{more}\n"
        f"{model}, {where}, seed {summary.seed}\n"
    )


def _outcome(summary: RunSummary) -> str:
    if len(summary.episodes) == 1:
        (episode,) = summary.episodes
        word = "yes" if episode.success else "no"
        steps = f"{episode.steps} of at most {episode.max_steps}"
        return labelled("success", word) + labelled("steps", steps)
    rows = [
        (str(state), "yes" if success else "no", str(steps), f"{wall_s:.2f}")
        for _, state, success, steps, wall_s in episode_table(summary.episodes)
    ]
    table = render_table(("init state", "success", "steps", "seconds"), rows)
    low, high = (100 * bound for bound in summary.success_interval)
    rate = (
        f"{summary.successes} of {len(summary.episodes)}: {100 * summary.success_rate:.1f}% "
        f"(95% interval {low:.1f}% to {high:.1f}%)"
    )
    text = table + "\n" + labelled("success", rate)
    if summary.mean_success_steps is not None:
        text += labelled("steps", f"{summary.mean_success_steps:.1f} on average when solved")
    return text


def _restarts(summary: RunSummary) -> str:
    text = ""
    for row in summary.episodes:
        if row.restarts:
            times = "once" if len(row.restarts) == 1 else f"{len(row.restarts)} times"
            text += labelled("again", f"episode {row.episode} was begun again {times}:")
        for one in row.restarts:
            text += labelled("", f"the simulator {in_words(one)}: {one.log}")
    return text


def _times(summary: RunSummary) -> str:
    scenes = sum(row.setup_s for row in summary.episodes)
    videos = sum(row.video_s for row in summary.episodes)
    parts = [f"start {seconds(summary.start_s)}", f"scenes {seconds(scenes)}"]
    parts.append(f"acting {seconds(summary.acting_s)}")
    if videos:
        parts.append(f"videos {seconds(videos)}")
    text = labelled("time", f"{seconds(summary.total_s)}: {', '.join(parts)}")
    rows = [
        (name, f"{value:.3f} s", percent(value, summary.acting_s))
        for name, value in sorted(summary.stages_s.items(), key=lambda item: -item[1])
    ]
    return text + render_table(("acting", "seconds", "share"), rows, indent=" " * LABEL)


def _files(summary: RunSummary) -> str:
    shown = summary.videos[:3]
    text = "".join(labelled("video" if not index else "", path) for index, path in enumerate(shown))
    if len(summary.videos) > len(shown):
        text += labelled("", f"and {len(summary.videos) - len(shown)} more")
    for row in summary.episodes:
        if row.video_error:
            text += labelled("no video", f"of episode {row.episode}: {row.video_error}")
    return text + labelled("results", summary.run_dir)
