# SPDX-License-Identifier: Apache-2.0
"""The exception tree survives a process border."""

import rpent_box.errors as errors
from rpent_box.errors import RpentBoxError, StaleFrame, from_code


def all_kinds(kind=RpentBoxError):
    yield kind
    for child in kind.__subclasses__():
        yield from all_kinds(child)


def test_every_code_names_one_class():
    kinds = list(all_kinds())
    codes = [kind.code for kind in kinds]
    assert len(kinds) > 20
    assert len(set(codes)) == len(codes)


def test_an_error_comes_back_as_its_own_class_with_hint_and_detail():
    for kind in all_kinds():
        twin = from_code(kind.code, "what came", hint="what to do", detail="log lines")
        assert type(twin) is kind
        assert (twin.message, twin.hint, twin.detail) == ("what came", "what to do", "log lines")


def test_an_unknown_code_keeps_its_text():
    error = from_code("from_the_future", "the flux is low")
    assert type(error) is RpentBoxError
    assert "from_the_future" in str(error)
    assert "the flux is low" in str(error)


def test_the_text_is_the_message_and_the_next_step():
    assert str(StaleFrame("slot 3 was written again", hint="Raise slots.")) == (
        "slot 3 was written again\nRaise slots."
    )
    assert str(StaleFrame("slot 3 was written again")) == "slot 3 was written again"


def test_the_tree_in_the_docstring_names_every_class():
    drawn: set[str] = set()
    for line in errors.__doc__.splitlines():
        words = line.replace("│", " ").replace("├──", " ").replace("└──", " ").split()
        drawn.update(words[:1])
    for kind in all_kinds():
        assert kind.__name__ in drawn, f"{kind.__name__} is not drawn in errors.py"
