"""Gives answers back to a server with the official Python clients, and prints what came of it as JSON, for
replayed-answers.test.ts.

    python replay_client.py BASE_URL
"""

import json
import sys

import anthropic
import openai

BASE_URL = sys.argv[1]
MODEL = "t.hermes"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

openai_client = openai.OpenAI(base_url=f"{BASE_URL}/v1", api_key="none", max_retries=0, timeout=30)
anthropic_client = anthropic.Anthropic(base_url=BASE_URL, api_key="none", max_retries=0, timeout=30)


def user(script):
    return {"role": "user", "content": f"hi [[s:{script}]]"}


def chat(script):
    tools = [
        {"type": "custom", "custom": {"name": "patch"}},
        {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}},
        {"type": "web_search"},
    ]
    asked = {"model": MODEL, "tools": tools}
    message = openai_client.chat.completions.create(messages=[user(script)], **asked).choices[0].message
    call = message.tool_calls[0]
    result = {"role": "tool", "tool_call_id": call.id, "content": "done"}
    history = [user(script), message, result, user("answer")]
    raw = openai_client.chat.completions.with_raw_response.create(messages=history, **asked)
    pieces = [
        chunk.choices[0].delta.content or ""
        for chunk in openai_client.chat.completions.create(messages=history, stream=True, **asked)
        if chunk.choices
    ]
    return {
        "call": call.to_dict(),
        "answer": raw.parse().choices[0].message.content,
        "streamed": "".join(pieces),
        "warning": raw.headers.get("warning"),
    }


def responses(script):
    tools = [
        {"type": "custom", "name": "patch"},
        {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": None},
        {"type": "web_search"},
    ]
    asked = {"model": MODEL, "tools": tools, "store": False}
    first = openai_client.responses.create(input=[user(script)], **asked)
    call = first.output[0]
    result = {"type": f"{call.type}_output", "call_id": call.call_id, "output": "done"}
    searched = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
    history = [user(script), searched, *first.output, result, user("answer")]
    raw = openai_client.responses.with_raw_response.create(input=history, **asked)
    with openai_client.responses.stream(input=history, **asked) as stream:
        streamed = stream.until_done().get_final_response().output_text
    return {
        "call": call.to_dict(),
        "answer": raw.parse().output_text,
        "streamed": streamed,
        "warning": raw.headers.get("warning"),
    }


def messages(script):
    tools = [
        {"name": "patch", "input_schema": {"type": "object", "properties": {"input": {"type": "string"}}}},
        {"name": "get_weather", "input_schema": PARAMETERS},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search"},
    ]
    asked = {"model": MODEL, "max_tokens": 200, "tools": tools}
    first = anthropic_client.messages.create(messages=[user(script)], **asked)
    call = first.content[0]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "done"}
    turn = {"role": "user", "content": [result, {"type": "text", "text": user("answer")["content"]}]}
    history = [user(script), {"role": "assistant", "content": first.content}, turn]
    raw = anthropic_client.messages.with_raw_response.create(messages=history, **asked)
    with anthropic_client.messages.stream(messages=history, **asked) as stream:
        streamed = stream.get_final_text()
    return {
        "call": call.to_dict(),
        "answer": raw.parse().content[0].text,
        "streamed": streamed,
        "warning": raw.headers.get("warning"),
    }


scripts = ("custom_call", "cut_call")
print(json.dumps({step.__name__: {script: step(script) for script in scripts} for step in (chat, responses, messages)}))
