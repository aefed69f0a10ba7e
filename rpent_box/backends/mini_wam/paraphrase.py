# SPDX-License-Identifier: Apache-2.0
"""Other ways to say a sentence, so that a student learns what is meant and not one spelling.

General English, written for this: each rule names words that stand for one another. A sentence is
rewritten by choosing anew wherever a rule applies.
"""

from __future__ import annotations

import re

import numpy as np

from rpent_box.backends.mini_wam.reserved import is_reserved
from rpent_box.backends.mini_wam.text import plain

_SWAPS: tuple[tuple[str, ...], ...] = (
    ("pick up", "pick", "take", "grab", "lift", "get", "fetch", "grasp"),
    ("place it", "put it", "set it", "lay it", "leave it", "drop it"),
    ("black bowl", "akita black bowl", "dark bowl", "black dish"),
    ("next to", "beside", "by", "near", "close to", "right next to"),
    ("in the basket", "into the basket", "inside the basket", "in the bin"),
    ("cookies box", "cookie box", "box of cookies", "packet of cookies"),
    ("table center", "the center of the table", "the middle of the table", "the table center"),
    ("in the top layer of", "in the top drawer of", "inside the top drawer of"),
    ("wooden cabinet", "cabinet", "wood cabinet"),
    ("ramekin", "small dish", "ramekin dish"),
    ("alphabet soup", "can of alphabet soup", "alphabet soup can"),
    ("bbq sauce", "barbecue sauce", "bottle of bbq sauce"),
    ("tomato sauce", "can of tomato sauce", "tomato sauce can"),
    ("salad dressing", "bottle of salad dressing", "dressing"),
    ("orange juice", "carton of orange juice", "juice"),
    ("milk", "milk carton", "carton of milk"),
    ("ketchup", "ketchup bottle", "bottle of ketchup"),
    ("butter", "stick of butter", "pack of butter"),
    ("cream cheese", "cream cheese box", "packet of cream cheese"),
    ("chocolate pudding", "pudding", "box of chocolate pudding"),
    ("middle layer of the drawer", "middle drawer of the cabinet", "middle drawer"),
    ("top layer of the drawer", "top drawer of the cabinet", "top drawer"),
    ("the top of the drawer", "top of the cabinet", "the top of the cabinet"),
    ("cheese on the bowl", "cheese in the bowl", "cheese into the bowl"),
    ("wine bottle", "bottle of wine", "bottle", "wine"),
    ("wine rack", "rack", "bottle rack"),
    ("turn on", "switch on", "light", "start"),
    ("open", "pull open", "slide open"),
    ("push", "slide", "shove", "move"),
    ("put the", "place the", "set the", "move the"),
    ("bowl inside", "bowl in it", "bowl into it", "bowl inside it"),
    ("on the plate", "onto the plate", "on top of the plate"),
    ("on the stove", "onto the stove", "on top of the stove"),
    ("stove", "cooker", "burner"),
)
"""Words of each group stand for one another."""
_OPENINGS = ("", "", "", "please", "now", "robot", "can you", "could you please", "go and")
_JOIN = re.compile(r"\band(?= (?:place|put))")
_JOINS = ("and", "and", "then", "and then")
_GROUP_OF = {words: swap for swap in _SWAPS for words in swap}
_FOUND = re.compile(
    r"\b(" + "|".join(sorted(_GROUP_OF, key=len, reverse=True)) + r")\b",  # the longest first
)


def paraphrase(sentence: str, rng: np.random.Generator) -> str:
    """Return `sentence` said in other words, in lower case; never as a reserved one.

    Nor as what a reserved one becomes behind an opening or without its articles. `sentence` is not
    reserved itself.
    """
    while True:
        whole = _reworded(sentence, rng)
        short = whole.replace(" the ", " ") if rng.random() < 0.1 else whole
        said = plain(f"{_chosen(_OPENINGS, rng)} {short}")
        if not any(map(is_reserved, (whole, short, said))):
            return said


def _reworded(sentence: str, rng: np.random.Generator) -> str:
    def swapped(found: re.Match[str]) -> str:
        words = found.group()
        return words if rng.random() < 0.4 else _chosen(_GROUP_OF[words], rng)

    return _FOUND.sub(swapped, _JOIN.sub(_chosen(_JOINS, rng), plain(sentence)))


def _chosen(options: tuple[str, ...], rng: np.random.Generator) -> str:
    return options[int(rng.integers(len(options)))]
