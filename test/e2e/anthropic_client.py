"""Drives a server with the official Anthropic client for Python and prints what it saw as JSON, for
anthropic-python.test.ts.

    python anthropic_client.py BASE_URL
"""

import json
import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="none", max_retries=0, timeout=30)

WEATHER = {
    "name": "get_weather",
    "description": "Weather of a place",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def question(script, model="plain"):
    return {"model": model, "max_tokens": 200, "messages": [{"role": "user", "content": f"hi [[s:{script}]]"}]}


def shape(message):
    return {
        "content": [block.to_dict() for block in message.content],
        "stop_reason": message.stop_reason,
        "stop_sequence": message.stop_sequence,
        "usage": {key: value for key, value in message.usage.to_dict().items() if value is not None},
    }


def plain():
    return shape(client.messages.create(**question("hello")))


def streamed():
    with client.messages.stream(**question("hello")) as stream:
        texts = list(stream.text_stream)
        return {"texts": texts, "message": shape(stream.get_final_message())}


def thinking():
    with client.messages.stream(**question("think", "r.qwen3")) as stream:
        return shape(stream.get_final_message())["content"]


def tools():
    asked = {"model": "t.hermes", "max_tokens": 200, "tools": [WEATHER]}
    turns = [{"role": "user", "content": "Weather? [[s:call]]"}]
    with client.messages.stream(**asked, messages=turns) as stream:
        pieces = [event.partial_json for event in stream if event.type == "input_json"]
        first = stream.get_final_message()
    call = next(block for block in first.content if block.type == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "21 degrees"}
    text = {"type": "text", "text": "So? [[s:answer]]"}
    turns += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result, text]}]
    second = client.messages.create(**asked, messages=turns)
    return {"stop": first.stop_reason, "input": call.input, "pieces": pieces, "answer": second.content[0].text}


def structured():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    output = {"format": {"type": "json_schema", "schema": schema}}
    return json.loads(client.messages.create(**question("json"), output_config=output).content[0].text)


def counted():
    asked = {"model": "plain", "system": "Be brief", "messages": [{"role": "user", "content": "hi"}]}
    return {
        "counted": client.messages.count_tokens(**asked).input_tokens,
        "spent": client.messages.create(**asked, max_tokens=5).usage.input_tokens,
    }


def models():
    return {"has_plain": "plain" in [model.id for model in client.models.list()], "one": client.models.retrieve("plain").id}


def abort():
    seen = 0
    with client.messages.create(**question("endless"), stream=True) as stream:
        for event in stream:
            seen += event.type == "content_block_delta"
            if seen == 3:
                break
    return seen


def errors():
    cases = {
        "wrong value": {**question("hello"), "max_tokens": 0},
        "unknown model": {**question("hello"), "model": "claude"},
        "full": question("full"),
        "limited": question("limited"),
        "refused": question("refused"),
        "broken": question("broken"),
    }
    seen = {}
    for name, asked in cases.items():
        for stream in (False, True):
            try:
                client.messages.create(**asked, stream=stream)
            except anthropic.APIStatusError as error:
                kind = [type(error).__name__, error.status_code, error.body["error"]["type"]]
                assert seen.setdefault(name, kind) == kind, f"{name} differs when streamed: {kind}"
    try:
        with client.messages.stream(**question("breaks")) as stream:
            list(stream.text_stream)
    except anthropic.APIError as error:
        seen["breaks"] = [error.body["error"]["type"]]
    return seen


STEPS = [plain, streamed, thinking, tools, structured, counted, models, abort, errors]
print(json.dumps({"version": anthropic.__version__, **{step.__name__: step() for step in STEPS}}))
