# SPDX-License-Identifier: Apache-2.0
"""Sentences that are kept for scoring: LIBERO-Pro's own, which no training may hear."""

from __future__ import annotations

import hashlib

from rpent_box.backends.mini_wam.text import plain

_BEGINNINGS = """
08d7998be1d4 096b954fcd48 10a62d42a2e8 13a4ae6335ec 161a5a0f6bd6 162243e1c5a1 1ce153f84540
1ff7f740b189 2180893e6862 25fa4b1304b6 2a10738e9a6e 2bfcd7c80dfd 2cf9fab80e6a 2f0947ebbfce
309cef1734ae 381f843526a0 3a09e5314f01 3f358660e9a7 3fb13172965b 407ca06e81fa 46e8b0402250
47082def9dab 477bf4993e36 492aa572a95d 4c91e34e4296 5807cef005d9 5b59602fc6c2 6405539b166c
69bf64b0f82e 6a497e080f87 6bc558397bf0 6fcd2cdef883 777aa7a85132 78408cd12b99 7a6b5f5de441
7b450e922bee 7ebdae1640ec 804558767191 825106ec706a 83988aef9c52 84eaa8d85157 85762b40acfc
8667f90057d8 87f358f2ef9c 8fd7b3fc595b 9542c6a2a905 a792171b793b ab4edec94b89 aefc24d0495e
afa0a467afba b11d745a95ec b3bc3d8f61df b41278fa8baa b44d9786ef6e ba47e2ea0000 bc931a5d67f0
beb6ec962916 c28fe0e782d5 c8096256d975 cd8667771821 dd2b57cbe0f4 e0463503a416 e682320b0872
e80fc8788c88 eac37dc33620 ec7bd338b012 f029025debd5 f6c1c4fa35c1
"""
"""Of each sentence of LIBERO-Pro that LIBERO itself does not say: of the SHA-256 of its words."""
_DIGITS = 12
_RESERVED = frozenset(_BEGINNINGS.split())


def is_reserved(sentence: str) -> bool:
    """Tell whether `sentence` is one of them, however it is capitalised or punctuated."""
    return hashlib.sha256(plain(sentence).encode()).hexdigest()[:_DIGITS] in _RESERVED
