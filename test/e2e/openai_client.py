"""Drives a server with the official Python client and prints what it saw as JSON, for openai-python.test.ts.

    python openai_client.py BASE_URL MODEL
"""

import asyncio
import json
import sys

import openai

BASE_URL, MODEL = sys.argv[1:3]
MESSAGES = [{"role": "user", "content": "What are you?"}]
QUESTION = {"model": MODEL, "messages": MESSAGES, "max_completion_tokens": 16}

client = openai.OpenAI(base_url=f"{BASE_URL}/v1", api_key="none", max_retries=0, timeout=30)


def chat():
    completion = client.chat.completions.create(**QUESTION)
    choice = completion.choices[0]
    return {
        "text": choice.message.content,
        "role": choice.message.role,
        "finish": choice.finish_reason,
        "usage": completion.usage.to_dict(),
    }


def chat_stream():
    text, ids, finish, usage = "", set(), None, None
    with client.chat.completions.create(**QUESTION, stream=True, stream_options={"include_usage": True}) as stream:
        for chunk in stream:
            ids.add(chunk.id)
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
    return {"text": text, "ids": len(ids), "finish": finish, "usage": usage.to_dict()}


def stream_helper():
    # Up to a stop string: this helper takes an answer that was cut at its budget for a failure.
    with client.chat.completions.stream(model=MODEL, messages=MESSAGES, stop=".") as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
        final = stream.get_final_completion()
    return {"text": text, "final": final.choices[0].message.content}


def completion():
    prompt = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 12}
    whole = client.completions.create(**prompt)
    streamed = "".join(chunk.choices[0].text for chunk in client.completions.create(**prompt, stream=True))
    return {"text": whole.choices[0].text, "streamed": streamed, "tokens": whole.usage.completion_tokens}


def models():
    return {"ids": [model.id for model in client.models.list()], "one": client.models.retrieve(MODEL).id}


def errors():
    def failure(**changes):
        try:
            client.chat.completions.create(**{**QUESTION, **changes})
        except openai.APIStatusError as error:
            return [type(error).__name__, error.status_code, error.code, error.param]
        return None

    return {
        "wrong value": failure(temperature=7),
        "too long": failure(messages=[{"role": "user", "content": "word " * 140_000}], stream=True),
        "unknown model": failure(model="gpt-17"),
        "unknown key": failure(extra_body={"mesages": []}),
    }


def abort():
    """Leaves an endless stream after five chunks, as a program that breaks out of its loop does."""
    seen = 0
    endless = {**QUESTION, "max_completion_tokens": 8000, "extra_body": {"ignore_eos": True}}
    with client.chat.completions.create(**endless, stream=True) as stream:
        for _ in stream:
            seen += 1
            if seen == 5:
                break
    return {"seen": seen}


async def at_once():
    async with openai.AsyncOpenAI(base_url=f"{BASE_URL}/v1", api_key="none", timeout=30) as many:

        async def one():
            stream = await many.chat.completions.create(**QUESTION, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

        return {"texts": list(await asyncio.gather(*(one() for _ in range(16))))}


report = {step.__name__: step() for step in (chat, chat_stream, stream_helper, completion, models, errors, abort)}
report["at_once"] = asyncio.run(at_once())
report["version"] = openai.__version__
print(json.dumps(report))
