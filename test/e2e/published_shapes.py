"""Holds answers against the response models of the official Python clients, for published-shapes.test.ts.

    python published_shapes.py ANSWERS

Each line of the file ANSWERS is `{"shape": "openai.types.chat.ChatCompletion", "value": ...}`. Prints one JSON list: for
each line, what is wrong with its value. The clients themselves take anything; here types are checked strictly, and names that a model does
not have are told.
"""

import importlib
import json
import sys
from functools import cache

from pydantic import BaseModel, TypeAdapter, ValidationError


@cache
def adapter_of(shape):
    module, _, name = shape.rpartition(".")
    return TypeAdapter(getattr(importlib.import_module(module), name))


def unknown_names(value, path=""):
    """Names that came along without being part of their model."""
    if isinstance(value, BaseModel):
        for name in value.model_extra or ():
            yield f"{path}{name}"
        for name in type(value).model_fields:
            yield from unknown_names(getattr(value, name), f"{path}{name}.")
    elif isinstance(value, list):
        for item in value:
            yield from unknown_names(item, path)


def path_of(loc):
    return ".".join(part for part in loc if isinstance(part, str))


def meant(errors):
    """Of a value that is none of a union's models, what keeps it from being the one that its own `type` names."""
    wrong_types = [one for one in errors if one["type"] == "literal_error" and one["loc"][-1] == "type"]
    others = {one["loc"][:-1] for one in wrong_types}

    def is_of_other(loc):
        return any(loc[:end] in others for end in range(1, len(loc)))

    own = [one for one in errors if not is_of_other(one["loc"])]
    return own or [{"loc": wrong_types[0]["loc"][:-2], "msg": wrong_types[0]["input"]}]


def problems(shape, value, **_names):
    try:
        read = adapter_of(shape).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        return sorted({f"{path_of(one['loc'])}: {one['msg']}" for one in meant(error.errors())})
    return sorted({f"{name}: unknown" for name in unknown_names(read)})


with open(sys.argv[1], encoding="utf-8") as answers:
    print(json.dumps([problems(**json.loads(line)) for line in answers]))
