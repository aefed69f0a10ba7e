# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from rpent_box.errors import BadActions
from rpent_box_libero.control import check_actions


def test_a_finite_chunk_passes() -> None:
    check_actions(np.zeros((10, 7), dtype=np.float32))


@pytest.mark.parametrize("shape", [(7,), (10, 6), (10, 14), (0, 7), (1, 10, 7)])
def test_a_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadActions, match="libero takes"):
        check_actions(np.zeros(shape, dtype=np.float32))


def test_another_type_is_refused() -> None:
    with pytest.raises(BadActions, match="float64"):
        check_actions(np.zeros((10, 7)))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_refused_by_name(value: float) -> None:
    actions = np.zeros((10, 7), dtype=np.float32)
    actions[4, 6] = value
    with pytest.raises(BadActions, match="gripper is .* in step 4; nothing was executed"):
        check_actions(actions)
