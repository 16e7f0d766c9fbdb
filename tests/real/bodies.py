"""Whether a request's body is one that the provider's official Python client could have sent.

The clients (PyPI openai, anthropic) describe bodies as TypedDicts. pydantic checks them, made stricter in two ways:
lists are looked into at once, and a member that a type does not have is an error.
"""
import os
import types
import typing
from collections.abc import Iterable

import pydantic
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from typing_extensions import get_type_hints, is_typeddict

TYPES = {
    "openai-completions": CompletionCreateParamsStreaming,
    "anthropic-messages": MessageCreateParamsStreaming,
    "openai-responses": ResponseCreateParamsStreaming,
}
made_strict = set()


def strict(hint):
    """The type with lists in place of iterables; TypedDicts are changed where they are."""
    if is_typeddict(hint):
        if hint not in made_strict:
            made_strict.add(hint)
            hint.__annotations__ = {name: strict(of) for name, of in get_type_hints(hint, include_extras=True).items()}
            hint.__pydantic_config__ = pydantic.ConfigDict(extra="forbid")
        return hint
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if not arguments or origin is typing.Literal:
        return hint
    if origin in (typing.IO, os.PathLike):  # what their clients would read from a file; here it came as text
        return str
    if origin is typing.Annotated:
        return typing.Annotated[(strict(arguments[0]), *hint.__metadata__)]
    inner = tuple(strict(each) for each in arguments)
    if origin is Iterable:
        return list[inner]
    return (typing.Union if origin is types.UnionType else origin)[inner if len(inner) > 1 else inner[0]]


def without_extensions(form, body):
    """`reasoning_content` is of the servers that think in this format, not of OpenAI's."""
    if form != "openai-completions":
        return body
    messages = [{k: v for k, v in message.items() if k != "reasoning_content"} for message in body["messages"]]
    return body | {"messages": messages}


def faults(form, body):
    """What is wrong with a body, one line each; empty if nothing is."""
    try:
        pydantic.TypeAdapter(strict(TYPES[form])).validate_python(without_extensions(form, body))
        return []
    except pydantic.ValidationError as error:
        return sorted(set(as_told(error.errors())))


def as_told(errors):
    """Without what is told of the other types of a union: those whose `type` or `role` the value does not have."""
    literals = [error["loc"] for error in errors if error["type"] == "literal_error"]
    other = {place[:-1] for place in literals if place[-1] in ("type", "role")}
    for error in errors:
        place = error["loc"]
        if not any(place[:length] in other for length in range(len(place))):
            yield f"{'.'.join(str(part) for part in place if '[' not in str(part))}: {error['msg']}"
