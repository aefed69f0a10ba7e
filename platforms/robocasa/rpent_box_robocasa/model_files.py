# SPDX-License-Identifier: Apache-2.0
"""Keep RoboCasa from writing into its assets, which are read-only in a container.

For each object that it places it writes a file beside the object's model, reads that, and deletes
it. The file goes to a folder of ours instead, and what it names beside the model is named in full;
robosuite would have done that a moment later. Import this module inside `prepared_process`.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree


def write_models_in(folder: Path) -> None:
    """Let objects' models be written into `folder` from now on. A later call names another one."""
    from robocasa.models.objects import objects

    paths = {**vars(os.path), "dirname": lambda _path: str(folder)}
    objects.os = SimpleNamespace(**{**vars(os), "path": SimpleNamespace(**paths)})
    model = objects.MJCFObject
    if not hasattr(model.postprocess_model_xml, "names_in_full"):
        model.postprocess_model_xml = _in_full(model.postprocess_model_xml)


def _in_full(postprocess: Any) -> Any:  # noqa: ANN401  # RoboCasa is untyped
    def postprocess_model_xml(self: Any, xml: str) -> str:  # noqa: ANN401
        root = ElementTree.fromstring(postprocess(self, xml))
        beside = os.path.abspath(os.path.dirname(self.mjcf_path))
        for node in root.findall("./asset/*[@file]"):
            # A path that is whole already stays as it is.
            node.set("file", os.path.join(beside, node.attrib["file"]))
        return ElementTree.tostring(root, encoding="unicode")

    postprocess_model_xml.names_in_full = True  # type: ignore[attr-defined]
    return postprocess_model_xml
