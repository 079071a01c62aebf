"""The shapes of messages and tools as clients send them, as types: OpenAPI's schemas are made from them (API-265).

The parsers read these shapes by hand, because a 400 names the part at fault; members that are not named here pass.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

__all__ = ["Message", "NamedTool", "SignIn", "Tool"]


class Received(Struct):
    """Whatever comes in."""


class TextPart(Received, tag_field="type", tag="text"):
    """A piece of text; the parts of a message are joined without a separator."""

    text: str


class ImageUrl(Received):
    """Where an image is."""

    url: Annotated[str, Meta(description="An https: address, or data:image/…;base64,… itself.")]
    detail: Annotated[Any, Meta(description="Without effect.")] = None


class ImagePart(Received, tag_field="type", tag="image_url"):
    """An image, where the model can see; otherwise a 400 that names the part."""

    image_url: ImageUrl


Texts: TypeAlias = str | list[TextPart]
Parts: TypeAlias = str | list[TextPart | ImagePart]


class SystemMessage(Received, tag_field="role", tag="system"):
    """Instructions. Those at the head of the list are joined into one."""

    content: Texts
    name: str | None = None


class DeveloperMessage(Received, tag_field="role", tag="developer"):
    """Read as `system`."""

    content: Texts
    name: str | None = None


class UserMessage(Received, tag_field="role", tag="user"):
    """What the user said."""

    content: Parts
    name: str | None = None


class PastFunction(Received):
    """The function of a call the model made earlier."""

    name: str
    arguments: Annotated[
        str | dict[str, Any] | None, Meta(description="As a string of JSON, as OpenAI has it, or as the object.")
    ] = None


class PastCall(Received):
    """A call the model made earlier."""

    function: PastFunction
    id: str | None = None
    type: Literal["function"] = "function"


class AssistantMessage(Received, tag_field="role", tag="assistant"):
    """What the model answered earlier, or its calls."""

    content: Parts | None = None
    reasoning_content: Annotated[str | None, Meta(description="Its reasoning; it enters the prompt again.")] = None
    reasoning: Annotated[str | None, Meta(description="The same under another name; the other one wins.")] = None
    tool_calls: list[PastCall] | None = None
    name: str | None = None


class ToolMessage(Received, tag_field="role", tag="tool"):
    """What a called tool gave back."""

    content: Parts
    tool_call_id: Annotated[str | None, Meta(description="The call it answers.")] = None
    name: str | None = None


Message: TypeAlias = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


class ToolFunction(Received):
    """A function the model may call."""

    name: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    parameters: Annotated[dict[str, Any] | None, Meta(description="A JSON Schema of its arguments.")] = None


class Tool(Received, tag_field="type", tag="function"):
    """Something the model may call."""

    function: ToolFunction


class NamedFunction(Received):
    """The function a call is forced of."""

    name: str


class NamedTool(Received, tag_field="type", tag="function"):
    """Forces a call of one function."""

    function: NamedFunction


class SignIn(Received):
    """A sign-in to the dashboard."""

    token: Annotated[str, Meta(description="The password.")]
