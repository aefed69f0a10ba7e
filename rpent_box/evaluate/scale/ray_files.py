# SPDX-License-Identifier: Apache-2.0
"""What an episode leaves, as it travels from the machine where it was played."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from rpent_box.errors import OutputError, ProtocolMismatch

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def require_plain(name: str) -> None:
    """Raise `ProtocolMismatch` unless `name`, which comes from another machine, is a file's alone:
    no path, no hidden file, nothing that a shell or a terminal would take for more."""
    if _PLAIN.fullmatch(name) is None:
        raise ProtocolMismatch(f"a machine of the cluster has sent a file named {name!r}")


def take_files(folder: Path) -> dict[str, bytes]:
    """Return file name → contents of an episode's folder, and remove it. Raises `OutputError`."""
    try:
        found = {
            path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()
        }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise OutputError(f"{folder} cannot be read: {error.strerror}") from error
    shutil.rmtree(folder, ignore_errors=True)
    return found
