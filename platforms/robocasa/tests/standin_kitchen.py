# SPDX-License-Identifier: Apache-2.0
"""A folder that RoboCasa takes for its assets: boxes for things, flat colours for textures.

RoboCasa's own floor plans, styles, tasks, cabinets and counters are used as they are; every fixture
and object that the real folder has a mesh for is a box with the joints, sites and regions that
RoboCasa's classes look for. Kitchens made of it can be built, driven through and reset; scores in
them mean nothing. `python standin_kitchen.py FOLDER` writes one.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
import sys
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

OBJECTS_PER_KIND = 12
"""Some of the first are passed over by name, and a split takes the last five."""
BURNERS = ("rear_left", "rear_right", "front_left", "front_right")
SIZES_M = {
    "sinks": (0.8, 0.5, 0.3),
    "stoves": (0.76, 0.66, 0.92),
    "stovetops": (0.76, 0.5, 0.1),
    "ovens": (0.6, 0.6, 0.6),
    "fridges": (0.85, 0.8, 1.78),
    "hoods": (0.76, 0.4, 0.4),
    "microwaves": (0.6, 0.45, 0.35),
    "dishwashers": (0.65, 0.6, 0.89),
    "coffee_machines": (0.25, 0.3, 0.35),
    "toasters": (0.25, 0.2, 0.2),
    "toaster_ovens": (0.45, 0.35, 0.25),
    "stand_mixers": (0.25, 0.3, 0.35),
    "electric_kettles": (0.2, 0.15, 0.22),
    "blenders": (0.15, 0.15, 0.35),
    "windows": (1.0, 0.05, 1.0),
    "cabinet_panels": (1.0, 0.02, 1.0),
    "handles": (0.02, 0.03, 0.15),
}
SMALL_M = (0.1, 0.1, 0.15)


def write_assets(folder: Path) -> Path:
    """Write the folder and return it. It is a few MB, most of it RoboCasa's own plans."""
    spec = find_spec("robocasa")
    assert spec is not None
    assert spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    shutil.copytree(package / "models" / "assets", folder, dirs_exist_ok=True)
    named = sorted(_named_files(package))
    for name in named:
        if name.endswith(".png"):
            _write_once(folder / name, flat_png(name))
        elif "textures/" not in name:
            model = folder / name
            if model.suffix != ".xml":
                model = model / "model.xml"
            _write_once(model, fixture_xml(name).encode())
    for kind in _kinds_of_objects(package):
        for number in range(OBJECTS_PER_KIND):
            model = f"objects/{kind}/{kind.split('/')[1]}_{number}"
            for file in ("model.xml", "model_upright.xml", "lid/model.xml"):
                _write_once(folder / model / file, object_xml(model).encode())
    for model in sorted(folder.glob("fixtures/**/*.xml")):
        _write_what_it_names(model)
    return folder


def flat_png(name: str) -> bytes:
    """Return a PNG of 8 x 8 pixels in a colour that belongs to `name`."""
    row = b"\0" + bytes(_colour(name)) * 8

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    data = zlib.compress(row * 8)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def fixture_xml(name: str) -> str:
    """Return a box with the joints, sites and regions of the fixture that `name` names."""
    kind = next((part for part in name.split("/") if part in SIZES_M), "")
    size = SIZES_M.get(kind, SMALL_M)
    inner = (*_regions(kind, size), *_moving_parts(kind, size), *_sites(kind, size))
    return _model(name, size, inner, texture="cabinet_panels" in name or "handles" in name)


def object_xml(name: str) -> str:
    """Return a box of a few centimetres that can be grasped."""
    return _model(name, (0.05, 0.05, 0.05), (_region("bbox", (0, 0, 0), (0.05, 0.05, 0.05)),))


def _model(
    name: str, size: tuple[float, ...], inner: tuple[str, ...], *, texture: bool = False
) -> str:
    half = " ".join(str(part / 2) for part in size)
    colour = " ".join(f"{part / 255:.3f}" for part in _colour(name))
    asset = (
        '<texture name="tex" type="cube" file="standin.png"/>'
        '<material name="mat" texture="tex" shininess="0.1"/>'
    )
    look = 'material="mat"' if texture else f'rgba="{colour} 1"'
    lines = (
        '<mujoco model="standin"><compiler angle="radian"/>',
        f"<asset>{asset if texture else ''}</asset>",
        '<worldbody><body><body name="object">',
        f'<geom name="shown" type="box" size="{half}" {look} group="1" contype="0" '
        'conaffinity="0" mass="0.0001"/>',
        f'<geom name="solid" type="box" size="{half}" group="0" rgba="0.5 0 0 0.5" density="100"/>',
        *inner,
        "</body>",
        f'<site name="bottom_site" pos="0 0 {-size[2] / 2}" size="0.005" rgba="0 0 0 0"/>',
        f'<site name="top_site" pos="0 0 {size[2] / 2}" size="0.005" rgba="0 0 0 0"/>',
        f'<site name="anchor_site" pos="0 0 {size[2] / 2}" size="0.005" rgba="0 0 0 0"/>',
        f'<site name="horizontal_radius_site" pos="{size[0] / 2} {size[1] / 2} 0" size="0.005" '
        'rgba="0 0 0 0"/>',
        "</body></worldbody></mujoco>",
    )
    return "\n".join(lines)


def _regions(kind: str, size: tuple[float, ...]) -> Iterator[str]:
    names = {"main": (0.0, 0.0, 0.0)}
    inside = tuple(0.8 * part for part in size)
    yield _region("main", names["main"], size)
    more = {
        "sinks": ("basin",),
        "dishwashers": ("rack1",),
        "ovens": ("rack0",),
        "toaster_ovens": ("rack0",),
        "toasters": ("slotL", "slotR"),
    }.get(kind, ("int",))
    if kind == "fridges":
        # Two shelves, where RoboCasa looks for some: 0.5 to 1.5 m above the floor.
        more, shelf = (), (inside[0], inside[1], 0.3)
        for name, height in (("fridge0", 0.0), ("fridge1", 0.35), ("freezer0", 0.0)):
            yield _region(name, (0, 0, height), shelf)
        yield _region("fridge_drawer0", (0, 0, -0.2), shelf)
    for name in more:
        yield _region(name, (0, 0, 0), inside)
    for button in {"microwaves": ("start_button", "stop_button")}.get(kind, ()):
        yield _button(button, size)
    if kind == "coffee_machines":
        yield _button("start_button", size)


def _moving_parts(kind: str, size: tuple[float, ...]) -> Iterator[str]:
    front = -size[1] / 2
    hinge, slide, knob = "0 1.57", "0 0.3", "0 3.1"
    joints = {
        "sinks": ("handle_joint:0 1.5", "handle_temp_joint:-0.5 0.5", "spout_joint:-3.1 3.1"),
        "stoves": tuple(f"knob_{burner}_joint:{knob}" for burner in BURNERS),
        "stovetops": tuple(f"knob_{burner}_joint:{knob}" for burner in BURNERS),
        "microwaves": (f"microjoint:{hinge}",),
        "fridges": (
            f"fridge_door_joint:{hinge}",
            f"freezer_door_joint:{hinge}",
            "fridge_drawer0_joint:slide",
        ),
        "dishwashers": (f"door_joint:{hinge}", "rack1_joint:slide"),
        "ovens": (
            f"door_joint:{hinge}",
            f"knob_time_joint:{knob}",
            f"knob_temp_joint:{knob}",
            "rack0_joint:slide",
        ),
        "toaster_ovens": (
            f"door_joint:{hinge}",
            *(f"knob_{of}_joint:{knob}" for of in ("doneness", "function", "temp", "time")),
            "rack0_joint:slide",
        ),
        "toasters": ("knob_joint:0 3.1", "lever_joint:slide"),
        "stand_mixers": (
            f"head_joint:{hinge}",
            f"knob_speed_joint:{knob}",
            "bowl_joint:slide",
            "button_head_lock_joint:0 0.3",
        ),
        "electric_kettles": (
            f"lid_joint:{hinge}",
            "switch_joint:0 0.3",
            "button_lid_joint:0 0.3",
        ),
        "blenders": (f"lid_joint:{hinge}",),
    }.get(kind, ())
    for place, joint in enumerate(joints):
        name, limits = joint.split(":")
        body = name.removesuffix("_joint")
        if limits == "slide":
            how = f'type="slide" axis="0 -1 0" range="{slide}"'
        else:
            how = f'type="hinge" axis="0 0 1" range="{limits}"'
        across = (place + 1) / (len(joints) + 1) * size[0] - size[0] / 2
        water = (
            '<site name="water" type="cylinder" size="0.01 0.1" rgba="0.3 0.6 1 0"/>'
            if name == "spout_joint"
            else ""
        )
        yield (
            f'<body name="{body}" pos="{across} {front - 0.03} 0">'
            f'<joint name="{name}" {how} damping="1" limited="true"/>'
            f'<geom name="{body}_knob" type="box" size="0.02 0.02 0.02" rgba="0.2 0.2 0.2 1" '
            'group="1" contype="0" conaffinity="0"/>'
            # Only geoms of group 0 weigh anything in robosuite's models.
            f'<geom name="{body}_mass" type="box" size="0.02 0.02 0.02" rgba="0 0 0 0" '
            f'group="0" contype="0" conaffinity="0" mass="0.05"/>{water}</body>'
        )


def _sites(kind: str, size: tuple[float, ...]) -> Iterator[str]:
    top = size[2] / 2
    if kind in ("stoves", "stovetops"):
        for place, burner in enumerate(BURNERS):
            x, y = (place % 2 - 0.5) * 0.3, (0.5 - place // 2) * 0.3
            yield (
                f'<site name="burner_on_{burner}" type="cylinder" pos="{x} {y} {top}" '
                'size="0.05 0.01" rgba="0.5 0.5 1 0"/>'
            )
    if kind == "coffee_machines":
        yield f'<site name="receptacle_place_site" pos="0 {-size[1] / 2} 0" size="0.01"/>'


def _region(name: str, pos: tuple[float, ...], size: tuple[float, ...]) -> str:
    where = " ".join(map(str, pos))
    half = " ".join(str(part / 2) for part in size)
    return (
        f'<geom name="reg_{name}" type="box" pos="{where}" size="{half}" rgba="0 1 0 0" group="1" '
        'contype="0" conaffinity="0" mass="0.0001"/>'
    )


def _button(name: str, size: tuple[float, ...]) -> str:
    return (
        f'<geom name="{name}" type="box" pos="{0.4 * size[0]} {-size[1] / 2} 0" '
        'size="0.02 0.02 0.02" rgba="0.8 0.1 0.1 1" group="1" mass="0.01"/>'
    )


def _named_files(package: Path) -> set[str]:
    """Return the fixtures and textures that RoboCasa's registries and classes name."""
    sources = [
        *(package / "models" / "assets" / "fixtures" / "fixture_registry").glob("*.yaml"),
        *(package / "models" / "fixtures").glob("*.py"),
    ]
    pattern = re.compile(r"(?:generative_textures|textures|fixtures|objects)/[\w./-]+")
    return {
        name
        for source in sources
        for name in pattern.findall(source.read_text(encoding="utf-8"))
        if not name.startswith("fixtures/fixture_registry")
    }


def _kinds_of_objects(package: Path) -> Iterator[str]:
    """Yield `collection/kind` of everything that RoboCasa puts into kitchens."""
    text = (package / "models" / "objects" / "kitchen_objects.py").read_text(encoding="utf-8")
    yield from re.findall(r'model_folders=\["([a-z_]+/[a-z_]+)"\]', text)
    category = ""
    for line in text.splitlines():
        if found := re.fullmatch(r"    ([a-z_0-9]+)=dict\(", line):
            category = found[1]
        elif found := re.match(r"        (objaverse|lightwheel|aigen)=dict\(", line):
            yield f"{'aigen_objs' if found[1] == 'aigen' else found[1]}/{category}"


def _write_what_it_names(model: Path) -> None:
    """Write the textures and meshes beside a model that it names and that are not there."""
    for name in re.findall(r'file="([^"]+)"', model.read_text(encoding="utf-8")):
        file = model.parent / name
        if file.suffix == ".png":
            _write_once(file, flat_png(name))
        elif file.suffix == ".obj":
            _write_once(file, CUBE_OBJ.encode())


def _write_once(file: Path, data: bytes) -> None:
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def _colour(name: str) -> tuple[int, int, int]:
    red, green, blue = hashlib.sha256(name.encode()).digest()[:3]
    return 96 + red // 2, 96 + green // 2, 96 + blue // 2


CUBE_OBJ = """\
v -0.05 -0.01 -0.05
v 0.05 -0.01 -0.05
v 0.05 0.01 -0.05
v -0.05 0.01 -0.05
v -0.05 -0.01 0.05
v 0.05 -0.01 0.05
v 0.05 0.01 0.05
v -0.05 0.01 0.05
f 1 3 2
f 1 4 3
f 5 6 7
f 5 7 8
f 1 2 6
f 1 6 5
f 2 3 7
f 2 7 6
f 3 4 8
f 3 8 7
f 4 1 5
f 4 5 8
"""


if __name__ == "__main__":
    write_assets(Path(sys.argv[1]))
