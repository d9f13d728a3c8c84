"""A real Dynamo for bench/kserve.ts.

    dynamo_side.py frontend TEMPLATE [flags of dynamo.frontend]   with a request template, which has no flag
    dynamo_side.py echo                                           a tensor model that answers with what it was asked
"""

import asyncio
import sys


def serve_frontend(template: str, flags: list[str]) -> None:
    from dynamo.frontend import main as frontend

    entrypoint = frontend.EntrypointArgs
    frontend.EntrypointArgs = lambda *given, **named: entrypoint(*given, template_file=template, **named)
    sys.argv = ["dynamo.frontend", *flags]
    frontend.main()


async def generate(request, _context=None):
    yield {"model": request["model"], "tensors": request["tensors"]}


async def serve_echo() -> None:
    from dynamo.llm import ModelInput, ModelType, WorkerType, register_model
    from dynamo.runtime import DistributedRuntime

    runtime = DistributedRuntime(asyncio.get_running_loop(), "file", "tcp")
    endpoint = runtime.endpoint("dynamo.tensor.generate")
    described = {"name": "echo", "inputs": [], "outputs": []}
    await register_model(
        ModelInput.Tensor,
        ModelType.TensorBased,
        endpoint,
        "echo",
        worker_type=WorkerType.Aggregated,
        tensor_model_config=described,
    )
    await endpoint.serve_endpoint(generate)


if sys.argv[1] == "frontend":
    serve_frontend(sys.argv[2], sys.argv[3:])
else:
    import uvloop

    uvloop.run(serve_echo())
