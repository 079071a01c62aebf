"""The arrows of the design: who may import whom, read from the source."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import pytest

from tests.project.tree import imports, tandem_modules, within

OUTSIDE = ("tandem.cli", "tandem.asgi", "tandem.serve", "tandem.build", "tandem.service", "tandem.draining")
"""The outermost ring, which wires everything and which nothing else knows."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`who` imports nothing of `never`, and of Tandem, where `of_tandem` is given, nothing else than that."""

    who: str
    never: tuple[str, ...] = ()
    of_tandem: tuple[str, ...] | None = None
    but: tuple[str, ...] = ()
    """Packages below `who` that the rule leaves out."""


RULES = [
    Rule("tandem", never=("transformers",)),
    Rule("tandem", never=("tandem.service", "tandem.build", "tandem.serve"), but=OUTSIDE),
    Rule("tandem", never=("tandem.cli", "tandem.asgi"), but=("tandem.cli", "tandem.__main__")),
    Rule("tandem", never=("tandem.http",), but=(*OUTSIDE, "tandem.http")),
    Rule("tandem", never=("asyncio", "trio_asyncio", "aiosqlite"), but=("tandem.store.aio",)),
    Rule("tandem.config", of_tandem=("tandem.kinds", "tandem.settings")),
    Rule("tandem.settings", of_tandem=("tandem.kinds", "tandem.settings")),
    Rule("tandem.kinds", of_tandem=()),
    Rule("tandem.engine", of_tandem=("tandem.engine", "tandem.config"), never=("trio", "quart", "hypercorn")),
    Rule("tandem.conductor", never=("tandem.actors", "tandem.http", "tandem.store", "trio", "quart")),
    Rule("tandem.actors.kit", of_tandem=()),
    Rule("tandem.actors", never=("quart", "quart_trio", "hypercorn")),
    Rule("tandem.store", of_tandem=("tandem.store",)),
    Rule("tandem.live", of_tandem=("tandem.live", "tandem.store.outcome"), never=("quart", "hypercorn")),
    Rule("tandem.http.access", never=("quart", "quart_trio", "trio", "tandem.actors")),
    Rule("tandem.http.openai", never=("quart", "quart_trio", "trio", "tandem.actors")),
]


def breaches(rule: Rule) -> list[str]:
    found = []
    for module in tandem_modules():
        if not within(module.name, rule.who) or within(module.name, *rule.but):
            continue
        for name in imports(module.name, module.tree, is_package=module.path.endswith("__init__.py")):
            stranger = rule.of_tandem is not None and within(name, "tandem") and not within(name, *rule.of_tandem)
            # `from tandem import config` also gives the bare `tandem`, which holds nothing but the version.
            if within(name, *rule.never) or (stranger and name not in ("tandem", "tandem.__version__")):
                found.append(f"{module.path} imports {name}")
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.who}-{','.join(rule.never) or 'tandem'}")
def test_arrows_go_one_way(rule: Rule) -> None:
    assert breaches(rule) == []


def test_every_rule_is_about_something() -> None:
    names = {module.name for module in tandem_modules()}
    absent = {rule.who for rule in RULES if not any(within(name, rule.who) for name in names)}
    assert absent <= {"tandem.conductor"}


def test_imports_are_found_wherever_they_are() -> None:
    source = "import a.b\ndef f():\n    from .c import d\n    from .. import e\nfrom g import h\n"
    found = set(imports("p.q.r", ast.parse(source)))
    assert found == {"a.b", "p.q.c", "p.q.c.d", "p", "p.e", "g", "g.h"}
    assert "p.q.x" in set(imports("p.q", ast.parse("from . import x"), is_package=True))
