# SPDX-License-Identifier: Apache-2.0
"""How an evaluation stands, as lines for a terminal of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from rpent_box.cli.tables import about, seconds
from rpent_box.live.picture import Component, Machine, Picture, Seat, Task
from rpent_box.live.scores import sum_of

WIDEST = 120
"""Columns: wider lines are hard to follow."""
MOST_SEATS = 8
"""Simulators with a line each; more of them are counted by what they do."""
MOST_PARTS = 5
"""Parts that start, with a line each."""
LEAST_TASKS = 4
"""With less room than for these, simulators share a line."""
BAR = 12
SILENT_S = 20.0
"""In one phase for so long, a simulator's line says how long."""
WORDS = {
    "resetting": "resetting",
    "waiting": "predicting",
    "acting": "acting",
    "video": "video",
    "replacing": "replaced",
    "idle": "idle",
}
PREPARED = frozenset({"images", "checkpoint"})
PROGRAMS = frozenset({"worker", "simulator"})
"""Parts, by a word of their names, that are ready at some time; all else only tells something."""
HEADINGS = ("done", "success", "95%", "steps", "s")
WIDTHS = (10, 8, 8, 6, 6)


def draw(picture: Picture, *, width: int, height: int) -> list[Text]:
    """Return at most `height` lines of at most `width` columns, the most telling ones."""
    width = min(width, WIDEST)
    head, foot = _head(picture), _foot(picture)
    total = [_total(picture, width)] if picture.tasks else []
    seats, parts = _seats(picture.seats, width), _parts(picture)
    # For the head, the foot, and the headings of the table.
    room = height - len(total) - len(seats) - len(parts) - 3
    if room < min(LEAST_TASKS, len(picture.tasks)):
        room += len(seats) + len(parts)
        seats, parts = _seats_together(picture.seats), parts[-1:]
        room -= len(seats) + len(parts)
    table = [_headings(width), *_tasks(picture, width, room)] if picture.tasks and room > 0 else []
    lines = [head, *table, *total, *seats, *parts]
    return [_cut(line, width) for line in [*lines[: height - 1], foot][-height:]]


def _head(picture: Picture) -> Text:
    what = " · ".join(filter(None, (picture.platform, picture.backend)))
    went = f"{seconds(picture.elapsed_s)} so far"
    if picture.eta_s is not None and picture.phase == "playing":
        went += f", {about(picture.eta_s)} left"
    return Text(f"{what or 'starting'}, {went}", style="bold")


def _foot(picture: Picture) -> Text:
    return Text(" · ".join(facts(picture)))


def facts(picture: Picture) -> Iterator[str]:
    """Yield what there is to say of pace, worker and losses, a few words each."""
    pace = picture.per_minute or picture.per_minute_overall
    if pace is not None:
        yield f"{pace:.1f} episodes/min"
    busy = _busy(picture.machines)
    if busy is not None:
        yield f"worker busy {100 * busy:.0f}%"
    restarts, lost = sum(picture.restarts.values()), sum(one.lost for one in picture.machines)
    if restarts:
        yield counted(restarts, "simulator") + " replaced"
    if lost:
        yield counted(lost, "worker") + " replaced"
    if picture.errors:
        yield counted(picture.errors, "error")


def counted(number: int, what: str) -> str:
    """Return `1 error`, `2 errors`."""
    return f"{number} {what}{'s' * (number != 1)}"


def _busy(machines: Sequence[Machine]) -> float | None:
    shares = [one.busy for one in machines if one.busy is not None]
    return sum(shares) / len(shares) if shares else None


def _headings(width: int) -> Text:
    return Text(_columns("task", HEADINGS, width), style="dim")


def _columns(label: str, cells: Sequence[str], width: int) -> str:
    right = "".join(cell.rjust(wide) for cell, wide in zip(cells, WIDTHS, strict=True))
    return set_cell_size(label, max(width - cell_len(right), 1)) + right


def _total(picture: Picture, width: int) -> Text:
    return _score("all", sum_of(picture.tasks), width, style="bold")


def _score(label: str, task: Task, width: int, *, style: str) -> Text:
    done = task.successes + task.failures
    cells = [f"{done}/{task.episodes}", "", "", "", ""]
    if done:
        cells[1] = f"{100 * task.successes / done:.1f}%"
        cells[2] = f"{100 * task.low:.0f}–{100 * task.high:.0f}"
        cells[3] = f"{task.steps / done:.0f}"
        cells[4] = f"{task.acting_s / done:.1f}"
    return Text(_columns(_shortened(label, width - sum(WIDTHS) - 1), cells, width), style=style)


def _tasks(picture: Picture, width: int, room: int) -> list[Text]:
    """Return a line per task, by suite; where there are too many, the most telling ones."""
    suites = list(dict.fromkeys(task.suite for task in picture.tasks))
    grouped = len(suites) > 1
    shown = _chosen(picture, room, grouped=grouped)
    lines = []
    for suite in suites:
        of_suite = [task for task in picture.tasks if task.suite == suite]
        tasks = [task for task in of_suite if _key(task) in shown]
        if grouped and tasks:
            lines.append(_score(suite, sum_of(of_suite, suite), width, style="bold"))
        for task in tasks:
            label = "  " * grouped + f"{task.task}: {task.name}"
            lines.append(_score(label, task, width, style=_style(task, picture)))
    left_out = [task for task in picture.tasks if _key(task) not in shown]
    if left_out and room > 0:
        lines.append(Text(_left_out(left_out), style="dim"))
    return lines


def _chosen(picture: Picture, room: int, *, grouped: bool) -> set[tuple[str, int]]:
    """Return the tasks for which there is room, with a line for each of their suites."""
    lines_of_all = len(picture.tasks) + grouped * len({task.suite for task in picture.tasks})
    if lines_of_all <= room:
        return {_key(task) for task in picture.tasks}
    shown: set[tuple[str, int]] = set()
    suites: set[str] = set()
    # One line says what is left out.
    left = room - 1
    for task in telling_first(picture):
        left -= 1 + (grouped and task.suite not in suites)
        if left < 0:
            break
        suites.add(task.suite)
        shown.add(_key(task))
    return shown


def telling_first(picture: Picture) -> list[Task]:
    """Return the tasks by how much a person wants to see of them.

    Those that are being played, those with errors, those begun, those that are done, the latest of
    them first, and those to come.
    """
    played = _played_now(picture)

    def rank(item: tuple[int, Task]) -> tuple[int, int]:
        place, task = item
        if _key(task) in played:
            return 0, place
        if task.errors:
            return 1, place
        if _is_done(task):
            return 3, -place
        return (2 if task.successes + task.failures else 4), place

    return [task for _, task in sorted(enumerate(picture.tasks), key=rank)]


def _left_out(tasks: Sequence[Task]) -> str:
    done = sum(_is_done(task) for task in tasks)
    parts = [f"{done} done"] if done else []
    if len(tasks) > done:
        parts.append(f"{len(tasks) - done} to come")
    return f"and {counted(len(tasks), 'more task')}: {', '.join(parts)}"


def _seats(seats: Sequence[Seat], width: int) -> list[Text]:
    if len(seats) > MOST_SEATS:
        return _seats_together(seats)
    return [_seat(seat, width, max(len(one.name) for one in seats)) for seat in seats]


def _seat(seat: Seat, width: int, name_width: int) -> Text:
    left = f"{seat.name:>{name_width}} {WORDS[seat.state]:<10} "
    if seat.episode is None or seat.state == "replacing":
        return Text(left + (seat.phase if seat.state == "replacing" else ""), style="dim")
    filled = round(BAR * min(seat.steps / seat.max_steps, 1.0)) if seat.max_steps else 0
    steps = f"{seat.steps}/{seat.max_steps}" if seat.max_steps else ""
    line = Text(left)
    line.append("━" * filled, style="green").append("━" * (BAR - filled), style="bright_black")
    line.append(f" {steps:<9} {seat.suite} {seat.task}, init state {seat.init_state}")
    if seat.for_s >= SILENT_S:
        line.append(f", for {seconds(seat.for_s)}", style="yellow")
    return line


def _seats_together(seats: Sequence[Seat]) -> list[Text]:
    if not seats:
        return []
    counts = Counter(WORDS[seat.state] for seat in seats)
    what = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    return [Text(f"{counted(len(seats), 'simulator')}: {what}")]


def _parts(picture: Picture) -> list[Text]:
    """Return a line for each of the parts that are not ready yet."""
    starting = not_ready(picture)
    if not starting:
        return []
    lines = [
        Text(f"{one.name}: {one.text}, {seconds(one.for_s)}", style="dim")
        for one in starting[:MOST_PARTS]
    ]
    if len(starting) > MOST_PARTS:
        lines[-1] = Text(f"and {len(starting) - MOST_PARTS + 1} more are starting", style="dim")
    return lines


def not_ready(picture: Picture) -> list[Component]:
    """Return the parts that are waited for: in the beginning all that say so, later programs."""
    waited_for = {"starting": {*PREPARED, *PROGRAMS}, "playing": PROGRAMS, "ended": set[str]()}
    return [
        one
        for one in picture.components
        if not one.text.startswith("ready")
        and not waited_for[picture.phase].isdisjoint(one.name.split(" "))
    ]


def _style(task: Task, picture: Picture) -> str:
    if task.errors:
        return "yellow"
    if _key(task) in _played_now(picture):
        return ""
    return "dim" if not task.successes + task.failures else ""


def _played_now(picture: Picture) -> set[tuple[str, int]]:
    return {(seat.suite, seat.task) for seat in picture.seats if seat.episode is not None}


def _is_done(task: Task) -> bool:
    return task.successes + task.failures >= task.episodes


def _key(task: Task) -> tuple[str, int]:
    return task.suite, task.task


def _shortened(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)) + "…"


def _cut(line: Text, width: int) -> Text:
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line
