# SPDX-License-Identifier: Apache-2.0
"""How Cosmos Policy is asked on LIBERO: the settings of its authors' own evaluation.

The names are those that its `get_model` and `get_action` read. Its own class for them lives in a
module that imports the simulator (cosmos_policy/experiments/robot/libero/run_libero_eval.py,
`PolicyEvalConfig`), which a worker must not need.
"""

from __future__ import annotations

from msgspec import Struct

from rpent_box.backends.cosmos_policy.options import ACTION_HORIZON


class Recipe(Struct, frozen=True, kw_only=True):
    """Settings by the names that Cosmos Policy's functions read."""

    ckpt_path: str
    """Absolute, and with the suffix `.pt`: another path would be taken for a repository's name."""
    config: str = "cosmos_predict2_2b_480p_libero__inference_only"
    config_file: str = "cosmos_policy/config/config.py"
    """Relative to its source tree, and turned into a module's name."""
    suite: str = "libero"
    chunk_size: int = ACTION_HORIZON
    use_third_person_image: bool = True
    num_third_person_images: int = 1
    use_wrist_image: bool = True
    num_wrist_images: int = 1
    use_proprio: bool = True
    normalize_proprio: bool = True
    unnormalize_actions: bool = True
    use_jpeg_compression: bool = True
    """It was trained on frames that had been JPEGs."""
    trained_with_image_aug: bool = True
    use_variance_scale: bool = False
