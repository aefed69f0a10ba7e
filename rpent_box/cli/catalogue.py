# SPDX-License-Identifier: Apache-2.0
"""What is installed and what fits what, from declarations alone: no simulator, no model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from rpent_box.contracts.spaces import KNOWN_SPACES
from rpent_box.errors import UnknownName
from rpent_box.launch.recipe import Kind, platform_target
from rpent_box.options import describe_options
from rpent_box.plugins import find_platform, installed_backends, installed_platforms
from rpent_box.sim.planning import platform_of_suite
from rpent_box.sim.platform import PlatformPlugin, Suite
from rpent_box.worker.backend import BackendSpec

Fit: TypeAlias = Literal["fits", "no plugin", "no adapter", "other action space"]
"""`no plugin`: the backend has an adapter for a platform that is not installed."""

Built: TypeAlias = Literal["ready", "stale", "missing", "no engine", "no recipe"]
"""`stale`: made before the checkout changed. `no recipe`: not ours to build."""


class Prepared(Struct, frozen=True, kw_only=True):
    """Whether a program could be started without building anything."""

    image: Built
    environment: Built
    variants: dict[str, Built] = {}
    """Variant → its image."""


class BackendEntry(Struct, frozen=True, kw_only=True):
    """One installed backend."""

    name: str
    aliases: tuple[str, ...]
    kind: Literal["vla", "wam"]
    summary: str
    platforms: tuple[str, ...]
    """Installed platforms that it has an adapter for and an action space in common with."""
    adapters: tuple[str, ...]
    """Every platform that it has an adapter for, installed or not."""
    action_spaces: tuple[str, ...]
    needs_checkpoint: bool
    checkpoint_is: Literal["path", "name"]
    """`name`: of what a service of its own has loaded."""
    needs_gpu: bool
    variants: tuple[Literal["cpu"], ...]
    """Images besides the default one."""
    borrows: str
    """The option that names a running service, which then computes instead."""
    python: str
    memory: str
    licence: str
    non_commercial: bool
    """The weights may not be used commercially."""
    proof: str
    """How far its adapters have been proven."""
    prepared: Prepared


class SuiteEntry(Struct, frozen=True, kw_only=True):
    """One suite; `task_names` only when a single platform or suite was asked for."""

    name: str
    tasks: int
    max_steps: int
    task_max_steps: tuple[int, ...]
    """The limit of each task, where they differ; empty: `max_steps` is everyone's."""
    init_states: int
    """0: any number gives a scene of its own."""
    first_init_state: int
    variant_of: str
    """The suite that it perturbs; empty: it stands for itself."""
    unavailable: str
    task_names: tuple[str, ...] = ()


class PlatformEntry(Struct, frozen=True, kw_only=True):
    """One installed platform."""

    name: str
    aliases: tuple[str, ...]
    summary: str
    backends: tuple[str, ...]
    """Installed backends that fit."""
    action_spaces: tuple[str, ...]
    camera_roles: tuple[str, ...]
    image_size: tuple[int, int]
    default_suite: str
    suites: tuple[SuiteEntry, ...]
    options: dict[str, str]
    """For `--platform-option`: key → what it is for."""
    env_fallbacks: dict[str, str]
    """Variable → the key that it stands in for."""
    recipe: str
    """What its image and environment are built from; platforms may share one."""
    python: str
    memory: str
    licence: str
    prepared: Prepared


class Catalogue(Struct, frozen=True, kw_only=True):
    """Everything that `rpent-box list` knows."""

    matrix: dict[str, dict[str, Fit]]
    """Backend → platform → whether they go together. Platforms without a plugin come last."""
    backends: tuple[BackendEntry, ...]
    platforms: tuple[PlatformEntry, ...]


Look: TypeAlias = Callable[[Kind, str], Prepared]
"""How a program of a name is prepared on this machine."""


def read_catalogue(
    look: Look, *, platform: str | None = None, suite: str | None = None, space: str | None = None
) -> Catalogue:
    """Return what is installed, narrowed to one platform, suite or action space.

    Raises `UnknownName`.
    """
    all_plugins, all_specs = installed_platforms(), installed_backends()
    plugins = [find_platform(platform)] if platform else all_plugins
    specs = all_specs
    chosen = [plugin.name for plugin in plugins]
    if space is not None:
        _require_space(space, plugins, specs)
        plugins = [plugin for plugin in plugins if space in _spaces(plugin)]
        specs = [spec for spec in specs if space in spec.action_spaces]
    if suite is not None:
        plugins = [plugin for plugin in plugins if suite in {one.name for one in plugin.suites}]
        if not plugins:
            raise _unknown_suite(suite, chosen)
    if platform is not None or suite is not None:
        specs = [spec for spec in specs if any(fits(spec, plugin) for plugin in plugins)]
    return Catalogue(
        matrix=_matrix(specs, plugins, with_unknown=not (platform or suite or space)),
        backends=tuple(_backend_entry(spec, all_plugins, look) for spec in specs),
        platforms=tuple(
            _platform_entry(plugin, all_specs, look, suite=suite, with_tasks=platform is not None)
            for plugin in plugins
        ),
    )


def fits(spec: BackendSpec, plugin: PlatformPlugin) -> bool:
    """Say whether the declarations match; the worker's meta decides at the start of a run."""
    return plugin.name in spec.platforms and bool(_spaces(plugin) & set(spec.action_spaces))


def _matrix(
    specs: Sequence[BackendSpec], plugins: Sequence[PlatformPlugin], *, with_unknown: bool
) -> dict[str, dict[str, Fit]]:
    names = [plugin.name for plugin in plugins]
    if with_unknown:
        known = {name for spec in specs for name in spec.platforms}
        names += sorted(known - {plugin.name for plugin in plugins})
    by_name = {plugin.name: plugin for plugin in plugins}
    return {spec.name: {name: _fit(spec, name, by_name) for name in names} for spec in specs}


def _fit(spec: BackendSpec, platform: str, plugins: dict[str, PlatformPlugin]) -> Fit:
    if platform not in spec.platforms:
        return "no adapter"
    if platform not in plugins:
        return "no plugin"
    return "fits" if fits(spec, plugins[platform]) else "other action space"


def _spaces(plugin: PlatformPlugin) -> set[str]:
    return {control.action_space for control in plugin.meta.controls}


def _backend_entry(
    spec: BackendSpec, platforms: Sequence[PlatformPlugin], look: Look
) -> BackendEntry:
    fitting = [plugin.name for plugin in platforms if fits(spec, plugin)]
    return BackendEntry(
        name=spec.name,
        aliases=spec.aliases,
        kind=spec.kind,
        summary=spec.summary,
        platforms=tuple(fitting),
        adapters=spec.platforms,
        action_spaces=spec.action_spaces,
        needs_checkpoint=spec.needs_checkpoint,
        checkpoint_is=spec.checkpoint_is,
        needs_gpu=spec.needs_gpu,
        variants=spec.variants,
        borrows=spec.borrows,
        python=spec.python,
        memory=spec.memory,
        licence=spec.licence,
        non_commercial=spec.non_commercial,
        proof=spec.proof,
        prepared=look("backend", spec.name),
    )


def _platform_entry(
    plugin: PlatformPlugin,
    specs: Sequence[BackendSpec],
    look: Look,
    *,
    suite: str | None,
    with_tasks: bool,
) -> PlatformEntry:
    fitting = [spec.name for spec in specs if fits(spec, plugin)]
    suites = [one for one in plugin.suites if suite is None or one.name == suite]
    return PlatformEntry(
        name=plugin.name,
        aliases=plugin.aliases,
        summary=plugin.summary,
        backends=tuple(fitting),
        action_spaces=tuple(control.action_space for control in plugin.meta.controls),
        camera_roles=plugin.meta.camera_roles,
        image_size=plugin.meta.image_size,
        default_suite=plugin.default_suite,
        suites=tuple(
            _suite_entry(one, with_tasks=with_tasks or suite is not None) for one in suites
        ),
        options=describe_options(plugin.options),
        env_fallbacks=plugin.env_fallbacks,
        recipe=platform_target(plugin).name,
        python=plugin.python,
        memory=plugin.memory,
        licence=plugin.licence,
        prepared=look("platform", plugin.name),
    )


def _suite_entry(suite: Suite, *, with_tasks: bool) -> SuiteEntry:
    return SuiteEntry(
        name=suite.name,
        tasks=len(suite.tasks),
        max_steps=suite.max_steps,
        task_max_steps=suite.task_max_steps,
        init_states=suite.init_states,
        first_init_state=suite.first_init_state,
        variant_of=suite.variant_of,
        unavailable=suite.unavailable,
        task_names=suite.tasks if with_tasks else (),
    )


def _require_space(space: str, plugins: list[PlatformPlugin], specs: list[BackendSpec]) -> None:
    installed = {known for plugin in plugins for known in _spaces(plugin)}
    installed |= {known for spec in specs for known in spec.action_spaces}
    if space not in installed | set(KNOWN_SPACES):
        raise UnknownName(
            f"there is no action space called {space}",
            hint=f"Known: {', '.join(sorted(installed | set(KNOWN_SPACES)))}",
        )


def _unknown_suite(suite: str, platforms: list[str]) -> UnknownName:
    other = platform_of_suite(suite)
    return UnknownName(
        f"there is no suite called {suite} on {', '.join(platforms) or 'any installed platform'}",
        hint=f"It is a suite of {other}: rpent-box list --platform {other} --suite {suite}"
        if other
        else "See: rpent-box list --platform " + (platforms[0] if platforms else "NAME"),
    )
