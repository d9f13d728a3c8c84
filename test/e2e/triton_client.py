"""Drives a KServe server with Triton's own client and prints what it saw as JSON, for kserve-clients.test.ts.

    python triton_client.py ADDRESS KEY

ADDRESS serves the models of kserve-models.mjs and stator-mini to who has KEY.
"""

import asyncio
import json
import queue
import sys

import grpc
import ml_dtypes
import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from google.protobuf.descriptor_pool import DescriptorPool
from tritonclient.utils import InferenceServerException

ADDRESS, KEY = sys.argv[1:3]


class WithKey(triton.InferenceServerClientPlugin):
    def __call__(self, request):
        request.headers["authorization"] = f"Bearer {KEY}"


def connect(module=triton):
    made = module.InferenceServerClient(ADDRESS)
    made.register_plugin(WithKey())
    return made


client = connect()


def tensor(name, values, datatype, module=triton):
    made = module.InferInput(name, list(values.shape), datatype)
    made.set_data_from_numpy(values)
    return made


def text(prompt, stream=None, module=triton):
    inputs = [tensor("text_input", np.array([prompt.encode()], dtype=object), "BYTES", module)]
    if stream is not None:
        inputs.append(tensor("streaming", np.array([stream]), "BOOL", module))
    return inputs


def fails(call):
    try:
        call()
    except InferenceServerException as error:
        return [error.status(), error.message()]
    return "no error"


def said(result):
    return [word.decode() for word in (*result.as_numpy("text_output"), *result.as_numpy("finish_reason"))]


A = np.arange(16, dtype=np.int32).reshape(1, 16)
B = np.ones((1, 16), dtype=np.int32)


def simple(module=triton):
    return [tensor("INPUT0", A, "INT32", module), tensor("INPUT1", B, "INT32", module)]


def is_simple(result):
    return bool(np.array_equal(result.as_numpy("OUTPUT0"), A + B) and np.array_equal(result.as_numpy("OUTPUT1"), A - B))


def server():
    index = client.get_model_repository_index()
    metadata = client.get_model_metadata("simple")
    config = client.get_model_config("simple").config
    return {
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "model": client.is_model_ready("simple"),
        "unknown": client.is_model_ready("nope"),
        "name": client.get_server_metadata().name,
        "index": sorted([model.name, model.version, model.state] for model in index.models),
        "inputs": [[each.name, each.datatype, list(each.shape)] for each in metadata.inputs],
        "config": [[each.name, each.data_type, list(each.dims)] for each in config.output],
        "text": [each.name for each in client.get_model_metadata("stator-mini").inputs],
    }


def statistics():
    before = client.get_inference_statistics("simple").model_stats[0].inference_stats.success.count
    for _ in range(3):
        client.infer("simple", simple())
    stats = client.get_inference_statistics("simple").model_stats[0]
    return {"more": stats.inference_stats.success.count - before, "version": stats.version}


def arithmetic():
    whole = client.infer("simple", simple(), request_id="mine")
    words = [np.array([str(each).encode() for each in row.flatten()], dtype=object).reshape(1, 16) for row in (A, B)]
    strings = client.infer("simple_string", [tensor(f"INPUT{at}", each, "BYTES") for at, each in enumerate(words)])
    sums = [int(each) for each in strings.as_numpy("OUTPUT0").flatten()]
    done = queue.Queue()
    for _ in range(8):
        client.async_infer("simple", simple(), lambda result, error: done.put(error or result))
    found = [done.get(timeout=20) for _ in range(8)]
    return {
        "simple": is_simple(whole),
        "id": whole.get_response().id,
        "simple_string": sums == (A + B).flatten().tolist(),
        "async_infer": [not isinstance(each, Exception) and is_simple(each) for each in found],
    }


TYPES = {
    "BOOL": np.array([[True, False, True]]),
    "UINT8": np.array([0, 255], dtype=np.uint8),
    "UINT16": np.array([0, 65535], dtype=np.uint16),
    "UINT32": np.array([0, 2**32 - 1], dtype=np.uint32),
    "UINT64": np.array([0, 2**64 - 1], dtype=np.uint64),
    "INT8": np.array([-128, 127], dtype=np.int8),
    "INT16": np.array([-(2**15), 2**15 - 1], dtype=np.int16),
    "INT32": np.array([[-(2**31)], [2**31 - 1]], dtype=np.int32),
    "INT64": np.array([-(2**63), 2**63 - 1], dtype=np.int64),
    "FP16": np.array([1.5, -2.25, 65504, np.inf, 6e-8], dtype=np.float16),
    "FP32": np.array([[0.1, -3.4e38]], dtype=np.float32),
    "FP64": np.array([0.1, 1e300]),
    "BF16": np.array([1.5, -2.25, 3.125, -4.0, 3.4e38], dtype=ml_dtypes.bfloat16),
    "BYTES": np.array([["a", "\u00e9\U0001f600".encode(), b"\x00\xff"], [b"", b"x" * 70000, "z"]], dtype=object),
    "empty": np.zeros((0, 3), dtype=np.float32),
}


def types():
    seen = {}
    for name, values in TYPES.items():
        datatype = "FP32" if name == "empty" else name
        result = client.infer("echo", [tensor("X", values, datatype)])
        back = result.as_numpy("X")
        if name == "BYTES":
            wanted = [each if isinstance(each, bytes) else each.encode() for each in values.flatten()]
            seen[name] = back.flatten().tolist() == wanted and back.shape == values.shape
        else:
            seen[name] = bool(np.array_equal(back, values)) and result.get_output("X").datatype == datatype
    return seen


def stream():
    seen = queue.Queue()
    with connect() as own:
        own.start_stream(lambda result, error: seen.put(error or result))
        asked = {"max_tokens": 4, "seed": 1}
        own.async_stream_infer(
            "stator-mini",
            text("What are you?", True),
            request_id="words",
            parameters=asked,
            enable_empty_final_response=True,
        )
        pieces, finals = [], []
        while not finals or not finals[-1]:
            response = seen.get(timeout=20).get_response()
            finals.append(response.parameters["triton_final_response"].bool_param)
            pieces.append(triton.InferResult(response))
        data = [said(piece) for piece in pieces[:-1]]
        own.async_stream_infer("echo", [tensor("X", A, "INT32")], request_id="bad", parameters={"raise": "boom"})
        fault = seen.get(timeout=20)
        own.async_stream_infer("echo", [tensor("X", A, "INT32")], request_id="3", parameters={"times": 3})
        order = [seen.get(timeout=20).get_response().parameters["seq"].int64_param for _ in range(3)]
        own.async_stream_infer("nope", text("x"))
        end = seen.get(timeout=20)
        return {
            "text": "".join(word for word, _ in data),
            "whole": said(client.infer("stator-mini", text("What are you?"), parameters=asked)),
            "finish": data[-1][1],
            "finals": finals.count(True),
            "ids": pieces[0].get_response().id,
            "fault": fault.message(),
            "order": order,
            "end": [end.status(), end.message()],
        }


def errors():
    short = tensor("INPUT0", A[:, :4], "INT32")
    broken = tensor("X", A, "INT32")
    broken._raw_content = broken._get_content()[:-3]
    hint = {"max_tokens": 4000}
    return {
        "unknown model": fails(lambda: client.infer("nope", simple())),
        "an input of another shape": fails(lambda: client.infer("simple", [short, simple()[1]])),
        "no input": fails(lambda: client.infer("simple", simple()[:1])),
        "bytes that are too few": fails(lambda: client.infer("echo", [broken])),
        "a chat model's other input": fails(lambda: client.infer("stator-mini", simple())),
        "a parameter of the wrong kind": fails(lambda: client.infer("stator-mini", text("x"), parameters={"n": "2"})),
        "a value out of range": fails(lambda: client.infer("stator-mini", text("x"), parameters={"temperature": 9.0})),
        "streaming in one response": fails(lambda: client.infer("stator-mini", text("x", True))),
        "the model's own error": fails(lambda: client.infer("echo", simple(), parameters={"raise": "boom"})),
        "its timeout": fails(lambda: client.infer("stator-mini", text("x"), timeout=20_000, parameters=hint)),
        "the client's": fails(lambda: client.infer("stator-mini", text("x"), client_timeout=0.05, parameters=hint)),
        "no key": fails(lambda: triton.InferenceServerClient(ADDRESS).infer("simple", simple())),
        "a method that is not served": fails(lambda: client.load_model("simple")),
    }


def cancels():
    """Both are stopped at the worker, which says so in its log."""
    slow = {"times": 1000, "delay_ms": 20}
    one = {"delay_ms": 30_000}
    call = client.async_infer("echo", simple(), lambda *_: None, request_id="unary", parameters=one)
    with connect() as own:
        seen = queue.Queue()
        own.start_stream(lambda result, error: seen.put(error or result))
        own.async_stream_infer("echo", simple(), request_id="stream", parameters=slow)
        first = seen.get(timeout=20)
        own.stop_stream(cancel_requests=True)
    call.cancel()
    return {"first": isinstance(first, triton.InferResult)}


async def with_asyncio():
    async with connect(triton_aio) as own:
        at_once = await asyncio.gather(*(own.infer("simple", simple(triton_aio)) for _ in range(16)))

        async def requests():
            for at in range(2):
                yield {
                    "model_name": "stator-mini",
                    "inputs": text("What are you?", True, triton_aio),
                    "request_id": str(at),
                    "parameters": {"max_tokens": 3},
                }

        words = {"0": "", "1": ""}
        async for result, error in own.stream_infer(requests()):
            if error is not None:
                raise error
            words[result.get_response().id] += said(result)[0]
        return {
            "ready": await own.is_server_ready(),
            "at_once": [is_simple(each) for each in at_once],
            "streams": list(words.values()),
        }


def others():
    channel = grpc.insecure_channel(ADDRESS)
    health = health_pb2_grpc.HealthStub(channel)
    names = ("", "inference.GRPCInferenceService", "simple")
    database = ProtoReflectionDescriptorDatabase(channel)
    service = DescriptorPool(database).FindServiceByName("inference.GRPCInferenceService")
    return {
        "health": [health.Check(health_pb2.HealthCheckRequest(service=name)).status for name in names],
        "watch": next(iter(health.Watch(health_pb2.HealthCheckRequest(service="simple")))).status,
        "services": sorted(database.get_services()),
        "methods": len(service.methods),
        "input": service.methods_by_name["ModelInfer"].input_type.full_name,
    }


print(
    json.dumps(
        {
            "server": server(),
            "statistics": statistics(),
            "arithmetic": arithmetic(),
            "types": types(),
            "stream": stream(),
            "errors": errors(),
            "cancels": cancels(),
            "aio": asyncio.run(with_asyncio()),
            "others": others(),
        }
    )
)
