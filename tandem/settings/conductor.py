"""The conductor: its documents, the monitor's mode, and what each of its parts does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from tandem.kinds import ByClient, Choice, FilePath, Names, OnOff, Text
from tandem.settings.group import Group, setting

__all__ = ["ConductorSettings"]


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ConductorSettings(Group):
    """The conductor: its documents, the monitor's mode, and what each of its parts does."""

    __slots__ = ()
    heading: ClassVar = "Conductor"

    conductor_config: Path | None = setting(  # noqa: RUF009  (a dataclass field)
        FilePath(),
        None,
        shown="no conductor",
        help="Directory of the conductor's documents, relative to STATE; /v1/conductor/* answers only with it.",
    )
    conductor: Literal["raw", "shadow", "on", "off"] | None = setting(
        Choice(("raw", "shadow", "on", "off")),
        None,
        shown="on with --conductor-config, else raw",
        help="The highest mode of the session monitor: on acts, shadow only journals, raw (off) has none.",
    )
    conductor_policy: Path | None = setting(  # noqa: RUF009  (a dataclass field)
        FilePath(),
        None,
        shown="the policy that ships",
        help="The monitor's policy, a YAML file; tandem policy check says what is wrong with one.",
    )
    notify_url: str | None = setting(
        Text("URL"),
        None,
        shown="nowhere",
        help="Where the watch pushes to, once the policy or a profile has it push, and the policy names no address.",
    )
    argloop: Literal["on", "log", "off"] = setting(
        Choice(("on", "log", "off")),
        "on",
        help="Stop calls whose arguments repeat themselves, where the monitor is on; log only says so, off also leaves "
        "the history as it is.",
    )
    client_cwd: Literal["note", "off"] = setting(
        Choice(("note", "off")),
        "note",
        help="Under a plan, move the working directory out of tools' descriptions into the turn, so that a cd leaves "
        "what is cached in place; off renders tools as sent.",
    )
    tool_fit: Literal["on", "shadow", "off"] = setting(
        Choice(("on", "shadow", "off")),
        "on",
        help="Leave out packages that the request's tools cannot carry out; shadow only journals, off keeps them. The "
        "router document may ask for less.",
    )
    client_reasoning: tuple[tuple[str, str], ...] = setting(
        ByClient(("tags", "reasoning_content", "both")),
        (("*", "reasoning_content"), ("hermes", "tags")),
        shown="*=reasoning_content,hermes=tags",
        help="Under a plan, where the reasoning goes by kind of client, while --reasoning-format is tags; an empty "
        "value means tags for all.",
    )
    status_clients: tuple[str, ...] = setting(
        Names(),
        ("open-webui",),
        shown="open-webui",
        help="Kinds of client that get state lines as status events until the first token; an empty value means none.",
    )
    note_dedup: Literal["parts", "block"] = setting(
        Choice(("parts", "block")),
        "parts",
        help="A later turn's note has what no earlier note says, or the whole block again when a part has changed.",
    )
    session_generations: bool = setting(
        OnOff(),
        True,
        help="Keep conversations without an id apart that begin with the same words; off has one session for each.",
    )
    conductor_fit: str = setting(
        Text("FIT"),
        "model",
        help="How the conductor fits the model: model as its adapter declares, off as the documents are written, or "
        "key=value,… over the declaration (effort_note, rules, questions, packages, lean, no_package_classes, "
        "max_package_tokens).",
    )

    @property
    def monitor_mode(self) -> Literal["raw", "shadow", "on"]:
        """`conductor` with its default (MON-001)."""
        if self.conductor is None:
            return "raw" if self.conductor_config is None else "on"
        return "raw" if self.conductor == "off" else self.conductor
