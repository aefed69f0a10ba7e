#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a base image without an image registry: debootstrap from this machine's own mirror.

    sudo python3 images/base/make_base.py [--suite bookworm]

The mirror, apt's settings and the certificate authorities are read from this machine when the
script runs, and end up in the image: keep that image on machines that may know them.
Standard library only, so that it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

REPOSITORY = "rpent-box/base"
PACKAGES = ("ca-certificates", "python3-minimal", "python3-venv")
SUITES = {"bookworm": "3.11", "jammy": "3.10"}
"""Suites whose own Python the locked requirements fit."""
APT = Path("/etc/apt")
INPUTS_LABEL = "rpent-box.inputs"
COMMAND_TIMEOUT_S = 900
CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.S)
KEPT_APT_SETTINGS = (
    "Acquire::Check-Valid-Until",
    "Acquire::Check-Date",
    "Acquire::http::Proxy",
    "Acquire::https::Proxy",
    "Acquire::ForceIPv4",
    "Acquire::Retries",
)
SLIM = """path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
"""


class CannotMake(Exception):
    """Why there is no image, and the next command."""


def main() -> int:
    arguments = _parse()
    if arguments.print_sources:
        sys.stdout.writelines(f"{line}\n" for line in apt_sources(APT, arguments.suite))
        return 0
    try:
        make_base(arguments.suite, mirror=arguments.mirror, force=arguments.force)
    except CannotMake as error:
        say(f"error: {error}")
        return 1
    except subprocess.CalledProcessError as error:
        say(f"error: {error.cmd[0]} ended with exit code {error.returncode}; see its output above")
        return 1
    return 0


def make_base(suite: str, *, mirror: str | None, force: bool) -> None:
    """Build `rpent-box/base:SUITE`, unless one made from the same inputs is there."""
    image = f"{REPOSITORY}:{suite}"
    sources = apt_sources(APT, suite)
    certificates = local_certificates(os.environ)
    settings = apt_settings()
    mirror = mirror or main_mirror(sources, suite)
    inputs = _digest(Path(__file__).read_text(), suite, mirror, *sources, settings, *certificates)
    if not force and inputs == image_label(image, INPUTS_LABEL):
        say(f"{image} is up to date")
        return
    require_tools()
    started = time.monotonic()
    with temporary_root() as root:
        say(f"{image}: installing {suite} from this machine's mirror")
        run("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}",
            suite, str(root), mirror)  # fmt: skip
        write_apt(root, suite, mirror, sources, settings)
        write_certificates(root, certificates)
        slim(root)
        import_image(root, image, suite=suite, inputs=inputs)
    say(f"{image}: ready after {time.monotonic() - started:.0f} s")


def apt_sources(folder: Path, suite: str) -> list[str]:
    """Return this machine's one-line sources for `suite`, its updates and its security fixes."""
    lines = []
    for file in [folder / "sources.list", *sorted(folder.glob("sources.list.d/*"))]:
        if file.suffix == ".list" and file.is_file():
            lines += [line.strip() for line in file.read_text().splitlines()]
        elif file.suffix == ".sources":
            lines += list(_one_line_sources(file.read_text()))
    # Third parties' sources bring keys that the image lacks; only the distribution's own pass.
    wanted = re.compile(rf"deb\s+(\[.*?\]\s+)?\S+\s+{suite}(-updates|-security)?/?\s+.*\bmain\b")
    return [line for line in lines if wanted.match(line)]


def main_mirror(sources: list[str], suite: str) -> str:
    """Return the address that `suite` itself comes from."""
    for line in sources:
        words = re.sub(r"\[.*?\]", "", line).split()
        if words[2] == suite:
            return words[1]
    raise CannotMake(
        f"this machine's apt configuration has no mirror of {suite}.\n"
        "next:  give one with --mirror URL, or take a registry's image with --build-arg BASE=IMAGE"
    )


def _one_line_sources(text: str) -> Iterator[str]:
    """Translate deb822 stanzas; one line per address and suite."""
    for stanza in re.split(r"\n\s*\n", text):
        unfolded = re.sub(r"\n[ \t]+", " ", re.sub(r"(?m)^#.*\n?", "", stanza))
        fields = dict(re.findall(r"(?m)^([A-Za-z-]+):[ \t]*(.*)$", unfolded))
        fields = {name.lower(): value for name, value in fields.items()}
        if "deb" not in fields.get("types", "").split() or fields.get("enabled") == "no":
            continue
        signed = fields.get("signed-by", "")
        option = f"[signed-by={signed}] " if signed.startswith("/usr/share/keyrings/") else ""
        for address in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield f"deb {option}{address} {suite} {fields.get('components', '')}".strip()


def apt_settings() -> str:
    """Return this machine's apt settings that downloads may depend on."""
    dump = subprocess.run(
        ["apt-config", "dump"], check=True, text=True, capture_output=True, timeout=60
    ).stdout
    kept = [line for line in dump.splitlines() if line.split(" ")[0] in KEPT_APT_SETTINGS]
    return "".join(f"{line}\n" for line in kept)


def local_certificates(environ: Mapping[str, str]) -> list[bytes]:
    """Return the certificate authorities that this machine trusts beyond the usual ones, as PEM."""
    files = sorted(Path("/usr/local/share/ca-certificates").rglob("*.crt"))
    bundle = environ.get("SSL_CERT_FILE", "")
    if bundle and Path(bundle).resolve() != Path("/etc/ssl/certs/ca-certificates.crt").resolve():
        files.append(Path(bundle))
    found = [pem for file in files for pem in CERTIFICATE.findall(file.read_bytes())]
    return list(dict.fromkeys(found))


def require_tools() -> None:
    """Check for root, a Docker client and debootstrap; install the last one if it is missing."""
    if os.geteuid() != 0:
        command = " ".join(["sudo", sys.executable, *sys.argv])
        raise CannotMake(f"debootstrap needs root.\nnext:  {command}")
    if shutil.which("docker") is None:
        raise CannotMake("there is no docker command.\nnext:  apt-get install docker.io")
    if shutil.which("debootstrap") is None:
        run("apt-get", "install", "--yes", "--no-install-recommends", "debootstrap")


@contextmanager
def temporary_root() -> Iterator[Path]:
    """Give an empty folder, and leave neither it nor a mount in it behind."""
    # Not /tmp: that is often a tmpfs without device files, which debootstrap refuses.
    folder = Path(tempfile.mkdtemp(prefix="rpent-box-base-", dir="/var/tmp"))
    root = folder / "root"
    root.mkdir(mode=0o755)
    try:
        yield root
    finally:
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            point = line.split(" ")[1]
            if point.startswith(f"{root}/"):
                run("umount", "--lazy", point)
        shutil.rmtree(folder)


def write_apt(root: Path, suite: str, mirror: str, sources: list[str], settings: str) -> None:
    """Give the image this machine's sources and settings."""
    lines = sources or [f"deb {mirror} {suite} main"]
    (root / "etc/apt/sources.list").write_text("".join(f"{line}\n" for line in lines))
    (root / "etc/apt/apt.conf.d/90-rpent-box-host").write_text(settings)
    (root / "etc/dpkg/dpkg.cfg.d/90-rpent-box-slim").write_text(SLIM)


def write_certificates(root: Path, certificates: list[bytes]) -> None:
    folder = root / "usr/local/share/ca-certificates"
    folder.mkdir(parents=True, exist_ok=True)
    for number, pem in enumerate(certificates):
        (folder / f"host-{number}.crt").write_bytes(pem)
    run("chroot", str(root), "update-ca-certificates")


def slim(root: Path) -> None:
    """Delete what no container reads: package lists and archives, manuals, translations."""
    for folder in ("var/lib/apt/lists", "var/cache/apt", "var/log", "usr/share/man"):
        for path in (root / folder).iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(root / "usr/share/locale")
    for path in (root / "usr/share/doc").rglob("*"):
        if not path.is_dir() and path.name != "copyright":
            path.unlink()


def import_image(root: Path, image: str, *, suite: str, inputs: str) -> None:
    """Hand the tree to the engine as one layer."""
    bundle = "/etc/ssl/certs/ca-certificates.crt"
    changes = (
        'CMD ["python3"]',
        "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8",
        # pip and uv carry their own authorities, and see the machine's only when told.
        f"ENV SSL_CERT_FILE={bundle} PIP_CERT={bundle} REQUESTS_CA_BUNDLE={bundle}",
        "LABEL org.opencontainers.image.title=rpent-box-base",
        f"LABEL org.opencontainers.image.version={suite}",
        f"LABEL {INPUTS_LABEL}={inputs}",
    )
    options = [word for change in changes for word in ("--change", change)]
    pack = ["tar", "--create", "--numeric-owner", f"--directory={root}", "."]
    with subprocess.Popen(pack, stdout=subprocess.PIPE) as tar:
        run("docker", "import", *options, "-", image, stdin=tar.stdout)
    if tar.returncode != 0:
        raise subprocess.CalledProcessError(tar.returncode, pack)


def image_label(image: str, label: str) -> str | None:
    """Return a label of a local image; None when there is no such image or label."""
    try:
        found = subprocess.run(
            ["docker", "image", "inspect", "--format", f'{{{{index .Config.Labels "{label}"}}}}',
             image],
            text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=60,
        )  # fmt: skip
    except FileNotFoundError:
        return None
    return found.stdout.strip() if found.returncode == 0 else None


def run(*command: str, stdin: IO[bytes] | int | None = subprocess.DEVNULL) -> None:
    subprocess.run(command, check=True, stdin=stdin, timeout=COMMAND_TIMEOUT_S)


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _digest(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:16]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=sorted(SUITES), default="bookworm")
    parser.add_argument("--mirror", metavar="URL", help="where debootstrap fetches from")
    parser.add_argument(
        "--print-sources",
        action="store_true",
        help="only print this machine's sources of the suite",
    )
    parser.add_argument("--force", action="store_true", help="build even when nothing has changed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
