"""The policy: what ships is valid and its schema is what the rules declare; what is wrong is named by its key."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tandem.conductor.documents import Profile, parse
from tandem.conductor.documents.profiles import Tasks
from tandem.conductor.documents.shipped import shipped_documents
from tandem.conductor.monitor import rules as _rules  # noqa: F401  (registers them)
from tandem.conductor.monitor.checks import model_problems
from tandem.conductor.monitor.events import RequestEvent
from tandem.conductor.monitor.modes import caps_of, lowest, task_mode, tasks_of
from tandem.conductor.monitor.monitor import Monitor
from tandem.conductor.monitor.patterns import pattern_problem
from tandem.conductor.monitor.policy import NotYaml, Policy, PolicyError, body_of, policy_of, shipped_body
from tandem.conductor.monitor.schema import schema_text
from tandem.conductor.monitor.tier0 import OVERRIDABLE, Rule, register, registered
from tandem.conductor.sessions.view import SessionView
from tandem.config import SettingError, Settings
from tests.conductor.monitor.scripted import TEXT, prompt_of

FOLDER = Path(__file__).resolve().parents[3] / "tandem" / "conductor" / "monitor"
RULES: Mapping[str, Rule] = {
    name: rule for name, rule in registered().items() if rule.fn.__module__.startswith("tandem.")
}
SHIPPED = policy_of(shipped_body(), RULES)


def changed(path: str, value: Any = None) -> dict[str, Any]:
    """The shipped body with the key at `path` set, or gone where there is no value."""
    body = copy.deepcopy(shipped_body())
    *steps, last = path.split(".")
    place: Any = body
    for step in steps:
        place = next(task for task in place if task["id"] == step) if isinstance(place, list) else place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return body


def problems(body: dict[str, Any]) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        policy_of(body, RULES)
    return [f"{problem.path}: {problem.reason}" for problem in caught.value.problems]


@pytest.mark.spec("MON-015", "MON-017")
def test_the_schema_beside_the_policy_is_what_the_rules_declare() -> None:
    written = (FOLDER / "supervisor.schema.json").read_text("utf-8")
    assert written == schema_text(RULES), (
        "tandem policy check --schema > tandem/conductor/monitor/supervisor.schema.json"
    )
    for name in ("supervisor.yaml", "supervisor.schema.json"):
        assert (FOLDER.parents[2] / "ops" / name).resolve() == FOLDER / name


@pytest.mark.spec("MON-013", "MON-014", "MON-016", "MON-025", "MON-044", "MON-152")
def test_what_ships() -> None:
    assert SHIPPED.revision >= 8
    assert (SHIPPED.caps.acts_per_request, SHIPPED.caps.acts_per_session_hour) == (4, 20)
    assert (SHIPPED.sessions.lineage_tokens, SHIPPED.sessions.join_window_s) == (1024, 3600)
    assert not SHIPPED.notify.enabled
    assert {task.rule for task in SHIPPED.tasks} == set(RULES), "every rule has its task"
    for text in (SHIPPED.texts["give_up"], SHIPPED.texts["answer_loop"]):
        assert text is not None
        assert text.startswith("[TandemLLM")
        assert text.endswith(".]")
    for task in SHIPPED.tasks:
        for name, schema in RULES[task.rule].params.items():
            assert task.params.get(name) == schema.get("default", task.params.get(name)), f"{task.id}.{name}"


MODES = {
    "D1": "act",
    "D1b": "act",
    "D2": "act",
    "D3": "act",
    "E1": "act",
    "E2": "shadow",
    "C1": "shadow",
    "C2": "shadow",
    "C3": "act",
    "C4": "act",
    "C5": "shadow",
    "S1": "off",
    "S2": "off",
    "S4": "off",
    "S5": "act",
}


@pytest.mark.spec("MON-149")
def test_the_modes_of_the_policy_file() -> None:
    found = {task.id: task.mode for task in SHIPPED.tasks}
    assert found == {"A1": "act"} | {name: MODES[name] for name in found if name != "A1"}


@pytest.mark.spec("MON-014", "MON-018", "MON-019")
@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("cap", 1, "cap: there is no such key"),
        ("caps", None, "caps: the key is missing"),
        ("texts.nudge", None, "texts.nudge: the key is missing"),
        ("tasks.D2.max_tokens", "many", "tasks[{D2}].max_tokens: is not of type 'integer'"),
        ("tasks.D2.rule", "nothing", "tasks[{D2}].rule: there is no such rule"),
        ("tasks.D2.id", "D1", "tasks[{D2}].id: the task stands twice"),
        ("tasks.D2.id", "client", "tasks[{D2}].id: rows of another kind have this name"),
        ("tasks.C2.requires", "(", "tasks[{C2}].requires: it is no regular expression"),
        ("tasks.C2.root", r"(\w+\s*)*$", "tasks[{C2}].root: a repeat without a bound around another"),
        ("tasks.A1.marker", "[cut {tool}]", "tasks[{A1}].marker: it has no place for {unit}"),
        ("tasks.D1.period", {"window": 1}, "tasks[{D1}].period.unit: the key is missing"),
        ("texts.give_up", "[{tool}]", "texts.give_up: {tool} is no placeholder here; there are: none"),
        ("texts.answer_loop", "{unit!r}", "texts.answer_loop: {unit} is no placeholder here"),
        ("texts.answer_loop", "{", "texts.answer_loop: a brace that belongs to no placeholder is written twice: {{"),
        ("texts.vendor_close", "Stop.", "texts.vendor_close: it does not hold the closing tag </think>"),
        ("templates.hidden_turn", "Hm.", "templates.hidden_turn: it has no place for {text}"),
        ("tasks.E2.notes.test_faked", None, "tasks[{E2}].notes.test_faked: the key is missing"),
        ("tasks.E2.evidence_question", "{until}?", "tasks[{E2}].evidence_question: {until} is no placeholder here"),
    ],
)  # fmt: skip
def test_a_problem_names_its_key(path: str, value: Any, said: str) -> None:
    for at, task in enumerate(SHIPPED.tasks):
        said = said.replace(f"{{{task.id}}}", str(at))
    assert any(problem.startswith(said) for problem in problems(changed(path, value)))


@pytest.mark.spec("MON-018")
def test_a_line_shows_the_value_where_there_is_one() -> None:
    body = changed("caps.acts_per_request", "many")
    del body["texts"]["nudge"]
    with pytest.raises(PolicyError) as caught:
        policy_of(body, RULES)
    assert [str(problem) for problem in caught.value.problems] == [
        "caps.acts_per_request: 'many': is not of type 'integer'",
        "texts.nudge: the key is missing",
    ]


@pytest.mark.spec("MON-014", "MON-018")
def test_what_is_no_yaml_and_what_stands_twice() -> None:
    for text in ("a: [", "- a", "", "\x00", "a: &a [*b]"):
        with pytest.raises(NotYaml):
            body_of(text)
    with pytest.raises(PolicyError) as caught:
        body_of("a: 1\nb: [{c: 1, c: 2}]\na: 2\n")
    assert [problem.path for problem in caught.value.problems] == ["b[0].c", "a"]
    assert body_of("mode: off")["mode"] == "off", "YAML 1.2: off and on are words"


@pytest.mark.spec("MON-019")
def test_the_model_must_read_the_closing_tag_and_the_letters() -> None:
    assert list(model_problems({"vendor_close": "a</think>"}, True, TEXT)) == []

    class Words:
        def encode(self, text: str) -> list[int]:
            return [0, 1]

        encode_own = TEXT.encode_own

    found = list(model_problems({"vendor_close": "a"}, True, Words()))  # type: ignore[arg-type]
    assert [problem.path for problem in found] == ["texts.vendor_close", *["tasks"] * 5]


@pytest.mark.spec("MON-005", "MON-006")
def test_modes_only_go_down() -> None:
    assert lowest("on", "shadow", "raw") == "raw"
    assert [task_mode(mode, "act") for mode in ("raw", "shadow", "on")] == ["off", "shadow", "act"]
    assert task_mode("on", "shadow", "act") == "shadow"
    assert task_mode("on", "act", "off") == "off"
    monitor = Monitor("shadow", SHIPPED, TEXT)
    assert (monitor.mode_for("on", 1), monitor.mode_for("raw", 1)) == ("shadow", "raw")
    assert Monitor("on", SHIPPED, TEXT).mode_for("on", 2) == "shadow"


def tasks(profile: Profile | None, **facts: Any) -> dict[str, str]:
    given: dict[str, Any] = {"monitor": "on", "argloop": "on", **facts}
    return {task.id: task.mode for task in tasks_of(SHIPPED, RULES, given["monitor"], profile, given["argloop"])}


@pytest.mark.spec("MON-009", "MON-010", "MON-082", "MON-149")
def test_what_of_the_policy_a_profile_leaves() -> None:
    known = {task.id for task in SHIPPED.tasks}
    alone = {name for name in ("A1", "D1", "D1b", "D2", "D3", "E1", "S5") if name in known}
    assert set(tasks(Profile(mode="on"))) == alone, "what it does not name"
    shipped = {key: body for key, body in shipped_documents().items() if key.startswith("profiles/")}
    expected: dict[str, dict[str, str]] = {
        "chat": {"C3": "act", "C5": "shadow"},
        "coding": {"E2": "shadow", "C3": "act", "C5": "shadow"},
        "overnight": {"E2": "shadow", "C3": "act", "C4": "act", "S1": "act", "S2": "act", "S4": "act"},
        "general": {},
        "tools": {"C3": "act", "C4": "act", "C5": "act"},
    }
    for name, more in expected.items():
        profile = profile_of(shipped[f"profiles/{name}"])
        found = tasks(profile)
        follow = dict.fromkeys(alone - {"D3"} if name == "tools" else alone, "act")
        assert found == follow | {task: mode for task, mode in more.items() if task in known}, name
    assert tasks(profile_of(shipped["profiles/chat"]), monitor="raw") == {}


def profile_of(body: Any) -> Profile:
    found = parse("profiles", body)
    assert isinstance(found, Profile)
    return found


@pytest.mark.spec("MON-010", "MON-153", "MON-154")
def test_thresholds_and_caps_of_a_profile() -> None:
    body = {
        "mode": "on",
        "toolgate": {"same_call": "on"},
        "tasks": {"C3": {"mode": "act", "repeats": 5}, "E2": {"mode": "act", "claim_at": 0.5}},
        "caps": {"acts_per_request": 1},
    }
    profile = profile_of(body)
    found = {task.id: task for task in tasks_of(SHIPPED, RULES, "on", profile, "on")}
    assert found["E2"].params["claim_at"] == 0.5
    assert found["E2"].params["admit_at"] == 0.6, "the policy's"
    assert found["C3"].params["repeats"] == 5
    assert caps_of(SHIPPED, profile).acts_per_request == 1
    assert caps_of(SHIPPED, Profile(mode="on")) == SHIPPED.caps
    for task in SHIPPED.tasks:
        own = getattr(Tasks(), task.id, None)
        settable = set() if own is None else set(own.__struct_fields__) - {"mode"}
        marked = {name for name, schema in RULES[task.rule].params.items() if schema.get(OVERRIDABLE)}
        assert settable == marked, f"{task.id}: a profile can set what the rule marks"


@pytest.mark.spec("MON-103")
def test_argloop_governs_a1() -> None:
    assert [tasks(None, argloop=word).get("A1") for word in ("on", "log", "off")] == ["act", "shadow", None]
    assert tasks(None, argloop="on", monitor="shadow")["A1"] == "shadow"


@pytest.mark.spec("MON-002", "MON-019", "MON-022", "MON-145")
def test_a_request_ends_under_the_version_it_began_with() -> None:
    monitor = Monitor("on", SHIPPED, TEXT, version=3)
    view, req = SessionView(key="k", first_date=date(2026, 11, 30)), RequestEvent(messages=())
    assert monitor.begin("raw", req, prompt_of(), view) is None
    running = monitor.begin("on", req, prompt_of(), view)
    monitor.reload(replace(SHIPPED, tasks=()), version=4)
    new = monitor.begin("on", req, prompt_of(), view)
    assert running is not None
    assert new is not None
    assert (running.policy_version, new.policy_version, monitor.version) == (3, 4, 4)
    assert (running.backstop, new.backstop) == (32_768, None)
    bad = replace(SHIPPED, texts={**SHIPPED.texts, "vendor_close": "no tag"})
    with pytest.raises(PolicyError):
        monitor.reload(bad, version=5)
    assert monitor.version == 4


@pytest.mark.spec("MON-026", "MON-142", "MON-027")
def test_what_cannot_be_registered() -> None:
    for nowhere in ("SP5", "watch", "label"):
        with pytest.raises(ValueError, match="acts at SP1 to SP4"):
            register("x", nowhere, {})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no schema for y"):
        register("x", "SP1", {}, required=("y",))
    with pytest.raises(ValueError, match="registered already"):
        register("answer_loop", "SP1", {})(lambda event, task, view: None)


@pytest.mark.spec("MON-155")
def test_who_looks_at_block_borders() -> None:
    """D2's look is a cap, which closes exactly (MON-038)."""
    rules = {task.id: RULES[task.rule] for task in SHIPPED.tasks}
    at_borders = {id for id, rule in rules.items() if rule.safe_point == "SP1" or rule.open_blocks}
    assert at_borders == {"D1", "D1b", "D2", "D3", "A1"}


def test_a_policy_is_a_value() -> None:
    assert isinstance(SHIPPED, Policy)
    assert policy_of(shipped_body(), RULES) == SHIPPED


@pytest.mark.spec("MON-001")
def test_the_start_option() -> None:
    def mode(**flags: str) -> str:
        return Settings.from_sources(flags, {}).monitor_mode

    assert (mode(), mode(conductor_config="c")) == ("raw", "on")
    assert [mode(conductor=word, conductor_config="c") for word in ("raw", "off", "shadow", "on")] == [
        "raw",
        "raw",
        "shadow",
        "on",
    ]
    assert Settings.from_sources({}, {"TANDEM_CONDUCTOR": "on"}).monitor_mode == "on"
    with pytest.raises(SettingError, match="raw or shadow or on or off"):
        mode(conductor="loud")


@pytest.mark.spec("MON-019")
def test_a_repeat_around_a_repeat_is_refused() -> None:
    for pattern in (r"(a+)+", r"(?:x(?:a*|b))*?", r"(\w{2,}\s)+", r"((a+)b)*", r"(?=(a+)+)b"):
        assert pattern_problem(pattern) is not None, pattern
    for pattern in (
        r"(a+){0,9}",
        r"(?>a+)+",
        r"(a+)++b",
        r"[(a+)+]",
        r"\(a+\)+",
        r"(a{1,4})+",
        r"(?=a+)*",
        "a+b*",
        "[]+]+",
    ):
        assert pattern_problem(pattern) is None, pattern
