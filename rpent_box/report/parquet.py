# SPDX-License-Identifier: Apache-2.0
"""Episodes as Parquet: the columns of the CSV with their types, and each run's manifest."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rpent_box.errors import LaunchError
from rpent_box.report.load import Entry
from rpent_box.report.table import COLUMNS, table_of
from rpent_box.sim.manifest import as_json
from rpent_box.version import __version__

MANIFEST_KEY = "rpent-box.manifest."
"""And the run's name: a key of the file's metadata, with `run.json` or `eval.json` behind it."""


def to_parquet(entries: Sequence[Entry]) -> bytes:
    """Return the table of `entries` as one file. Raises `LaunchError` without pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise LaunchError(
            "Parquet needs pyarrow, which is not installed",
            hint="pip install 'rpent-box[parquet]', or write --csv FILE",
        ) from error
    types = {
        "text": pyarrow.string(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "boolean": pyarrow.bool_(),
    }
    metadata = {"rpent-box.version": __version__} | {
        MANIFEST_KEY + folder.name: as_json(folder.manifest)
        for entry in entries
        for folder in entry.folders
    }
    schema = pyarrow.schema(
        [
            pyarrow.field(column.name, types[column.kind], metadata={"says": column.says})
            for column in COLUMNS
        ],
        metadata=metadata,
    )
    rows = list(table_of(entries))
    columns = [
        pyarrow.array([row[index] for row in rows], type=types[column.kind])
        for index, column in enumerate(COLUMNS)
    ]
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(columns, schema=schema), buffer)
    return buffer.getvalue()
