# SPDX-License-Identifier: Apache-2.0
"""CSV and Parquet come back out of pandas as they went in."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pandas
import pyarrow.parquet
import pytest
from fabricated_runs import fabricate_evaluation, fabricate_run, plan_of, restart
from msgspec.structs import replace

from rpent_box.report.csv import to_csv
from rpent_box.report.load import load_entries
from rpent_box.report.parquet import MANIFEST_KEY, to_parquet
from rpent_box.report.table import COLUMNS, table_of
from rpent_box.sim.manifest import as_json

PLAN = plan_of({"libero_spatial": 2}, episodes=4)
DOCS = Path(__file__).parents[3] / "docs"

WORDS = (
    *("pick up the bowl, then put it down", 'the "black" bowl', "two\nlines", "größe – 碗 🥣"),
    *("NA", "null", "  spaces  ", ""),
)
DTYPES = {"text": "str", "integer": "int64", "number": "float64", "boolean": "bool"}
OF_CSV = {"keep_default_na": False, "na_values": [""], "dtype": {"simulator": "str"}}
"""How pandas reads a text like `NA`, or `3`, as that text: as docs/reports.md says."""


def change(job, row):
    return replace(
        row,
        instruction=WORDS[job.episode],
        restarts=(restart(),) * (job.episode == 2),
        remarks={"out of, reach": 3} if job.episode == 1 else {},
        expected_db=27.5 if job.episode == 3 else None,
        video="episode.mp4" if job.episode == 5 else None,
        simulator="" if job.episode == 0 else row.simulator,
    )


@pytest.fixture
def entries(tmp_path):
    return load_entries([fabricate_evaluation(tmp_path, "one", plan=PLAN, change=change)])


def read_csv(data: bytes) -> pandas.DataFrame:
    return pandas.read_csv(io.BytesIO(data), **OF_CSV)


def read_parquet(data: bytes) -> pandas.DataFrame:
    return pandas.read_parquet(io.BytesIO(data))


@pytest.mark.parametrize(("write", "read"), [(to_csv, read_csv), (to_parquet, read_parquet)])
def test_types_and_order_are_those_of_the_columns(entries, write, read):
    frame = read(write(entries))
    assert list(frame.columns) == [column.name for column in COLUMNS]
    for column in COLUMNS:
        if frame[column.name].notna().any():
            assert str(frame[column.name].dtype) in (DTYPES[column.kind], "object"), column.name


@pytest.mark.parametrize(("write", "read"), [(to_csv, read_csv), (to_parquet, read_parquet)])
def test_every_value_comes_back(entries, write, read):
    frame = read(write(entries))
    rows = list(table_of(entries))
    assert len(frame) == len(rows) == 8
    for number, row in enumerate(rows):
        for column, value in zip(COLUMNS, row, strict=True):
            found = frame[column.name][number]
            if value is None or (value == "" and write is to_csv):
                assert pandas.isna(found), column.name
            else:
                assert found == value, column.name


def test_what_pandas_counts_is_what_was_counted(entries):
    frame = read_csv(to_csv(entries))
    assert frame.success.dtype == bool
    rows = [row for _, row in entries[0].rows()]
    assert frame.groupby("task").success.sum().to_dict() == {
        task: sum(row.success for row in rows if row.task == task) for task in (0, 1)
    }
    stages = frame[[f"{name}_s" for name in rows[0].stages_s]].sum(axis=1)
    assert stages.tolist() == pytest.approx([row.wall_s for row in rows])


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_text_that_a_spreadsheet_would_run_is_made_a_text(tmp_path, start):
    hostile = f"{start}HYPERLINK(1)"

    def hostile_words(job, row):
        return replace(row, instruction=hostile)

    entries = load_entries([fabricate_evaluation(tmp_path, "one", plan=PLAN, change=hostile_words)])
    frame = read_csv(to_csv(entries))
    assert set(frame.instruction) == {f"'{hostile}"}
    assert set(read_parquet(to_parquet(entries)).instruction) == {hostile}


def test_numbers_keep_their_sign(tmp_path):
    def negative(job, row):
        return replace(row, seed=-3)

    plan = replace(PLAN, seeds=(-3,))
    entries = load_entries([fabricate_evaluation(tmp_path, "one", plan=plan, change=negative)])
    assert set(read_csv(to_csv(entries)).seed) == {-3}


def test_a_stage_that_is_not_known_is_part_of_other(tmp_path):
    def dancing(job, row):
        return replace(row, stages_s={"simulate": 1.0, "other": 0.5, "dance": 2.0}, wall_s=3.5)

    entries = load_entries([fabricate_evaluation(tmp_path, "one", plan=PLAN, change=dancing)])
    frame = read_csv(to_csv(entries))
    assert set(frame.other_s) == {2.5}
    assert frame.render_s.isna().all()


def test_parquet_carries_the_manifests_and_what_columns_mean(entries):
    schema = pyarrow.parquet.read_schema(io.BytesIO(to_parquet(entries)))
    folder = entries[0].folders[0]
    assert schema.metadata[f"{MANIFEST_KEY}one".encode()] == as_json(folder.manifest)
    for column in COLUMNS:
        assert schema.field(column.name).metadata[b"says"].decode() == column.says


def test_nothing_played_is_a_table_without_rows(tmp_path):
    entries = load_entries([fabricate_evaluation(tmp_path, "one", plan=PLAN, played=0)])
    assert len(to_csv(entries).splitlines()) == 1
    frame = read_parquet(to_parquet(entries))
    assert len(frame) == 0
    assert str(frame.success.dtype) == "bool"


def test_several_runs_stand_one_below_the_other(tmp_path):
    paths = [fabricate_run(tmp_path, f"run-{task}", task=task) for task in range(3)]
    frame = read_csv(to_csv(load_entries(paths)))
    assert frame.run.value_counts().to_dict() == {"run-0": 3, "run-1": 3, "run-2": 3}


def test_the_page_about_reports_reads_csv_as_it_is_read_here():
    page = (DOCS / "reports.md").read_text()
    (arguments,) = re.findall(
        r"pandas\.read_csv\(\s*\"results.csv\", (.*?)\s*\)$", page, re.M | re.S
    )
    assert eval(f"dict({arguments})") == OF_CSV  # noqa: S307 - our own page


def test_the_page_about_reports_lists_every_column_in_order():
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \| (.*) \|$", (DOCS / "reports.md").read_text(), re.MULTILINE
    )
    assert rows == [(column.name, column.kind, column.says) for column in COLUMNS]
