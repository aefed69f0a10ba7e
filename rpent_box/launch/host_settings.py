# SPDX-License-Identifier: Apache-2.0
"""How this machine reaches package indexes, for builds: pip's and uv's settings, certificates."""

from __future__ import annotations

import configparser
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

SYSTEM_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


class Indexes(Struct, frozen=True, kw_only=True):
    """Where Python packages come from."""

    default: str | None = None
    """None: the public index."""
    extra: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    """Folders or pages of wheels."""

    def remote(self) -> Indexes:
        """Return those that a container reaches too."""

        def reached(addresses: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(one for one in addresses if one.startswith(("http://", "https://")))

        return Indexes(
            default=(reached((self.default or "",)) or (None,))[0],
            extra=reached(self.extra),
            trusted_hosts=self.trusted_hosts,
            find_links=reached(self.find_links),
        )

    def pip_conf(self) -> str:
        """Return them as pip's configuration file."""
        settings = {
            "index-url": self.default or "",
            "extra-index-url": " ".join(self.extra),
            "trusted-host": " ".join(self.trusted_hosts),
            "find-links": " ".join(self.find_links),
        }
        return "[global]\n" + "".join(
            f"{key} = {value}\n" for key, value in settings.items() if value
        )

    def uv_toml(self) -> str:
        """Return them as uv's configuration file."""
        # uv looks no further than the first index that has a package; pip takes the best match.
        # Locked hashes leave no choice between two files of one name.
        lines = ['index-strategy = "unsafe-best-match"']
        lines.append(f"allow-insecure-host = {json.dumps(self.trusted_hosts)}")
        lines.append(f"find-links = {json.dumps(self.find_links)}")
        for address in self.extra:
            lines.append(f"[[index]]\nurl = {json.dumps(address)}")
        if self.default is not None:
            lines.append(f"[[index]]\nurl = {json.dumps(self.default)}\ndefault = true")
        return "\n".join(lines) + "\n"


def read_indexes(environ: Mapping[str, str], files: tuple[Path, ...] | None = None) -> Indexes:
    """Read pip's files, then pip's and uv's variables over them. Unreadable files are skipped."""
    merged = configparser.RawConfigParser(strict=False)
    merged.read(pip_files(environ) if files is None else files)
    settings = {
        key: value
        for section in ("global", "install")
        if merged.has_section(section)
        for key, value in merged.items(section)
    }

    def setting(key: str, *variables: str) -> str:
        given = [environ[name] for name in variables if environ.get(name)]
        return given[0] if given else settings.get(key, "")

    return Indexes(
        default=setting("index-url", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL") or None,
        extra=tuple(
            setting(
                "extra-index-url", "UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"
            ).split()
        ),
        trusted_hosts=tuple(
            setting("trusted-host", "UV_INSECURE_HOST", "PIP_TRUSTED_HOST").split()
        ),
        find_links=tuple(setting("find-links", "UV_FIND_LINKS", "PIP_FIND_LINKS").split()),
    )


def pip_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files that pip reads outside virtual environments, the strongest last."""
    return tuple(_pip_files(environ))


def _pip_files(environ: Mapping[str, str]) -> Iterator[Path]:
    for folder in reversed((environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")):
        yield Path(folder) / "pip" / "pip.conf"
    yield Path("/etc/pip.conf")
    if home := environ.get("HOME"):
        yield Path(home) / ".pip" / "pip.conf"
        yield Path(environ.get("XDG_CONFIG_HOME") or f"{home}/.config") / "pip" / "pip.conf"
    if named := environ.get("PIP_CONFIG_FILE"):
        yield Path(named)


def certificate_bundle(environ: Mapping[str, str]) -> Path | None:
    """Return the file of certificate authorities that this machine trusts."""
    for named in (environ.get("SSL_CERT_FILE"), environ.get("PIP_CERT"), str(SYSTEM_BUNDLE)):
        if named and Path(named).is_file():
            return Path(named)
    return None
