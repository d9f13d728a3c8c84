import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { freePort, postJson, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';
import { KserveClient } from '../support/kserve/kserve-client.ts';
import {
  type CollectedSpan,
  hasOtelCollector,
  type OtelCollector,
  startOtelCollector,
} from '../support/otel-collector.ts';

const fleet = useFleet();
const MODEL = 'stator-mini';
const MESSAGES = [{ role: 'user', content: 'Hello there' }];
const CHAT = { model: MODEL, messages: MESSAGES, max_tokens: 4, ignore_eos: true };
const GRPC_ANSWERS = 'inference.GRPCInferenceService/ModelInfer';
const TEXT_INPUT = {
  modelName: MODEL,
  id: 'mine',
  inputs: [{ name: 'text_input', datatype: 'BYTES', shape: ['1'], contents: { bytesContents: [btoa('Hello')] } }],
};

/** One request, and what its two spans have to say. */
interface Case {
  readonly name: string;
  readonly ask: (traceparent: string) => Promise<unknown>;
  readonly server: string;
  readonly serverSays: Readonly<Record<string, unknown>>;
  readonly operation: string;
  readonly operationSays: Readonly<Record<string, unknown>>;
  /** `error.type` of the operation, and whether the server span is a failure, too. */
  readonly error?: readonly [string, boolean];
}

describe.skipIf(!hasOtelCollector())('traces that the OpenTelemetry Collector has read', () => {
  let collector: OtelCollector;
  let frontend: StatorProcess;
  let worker: StatorProcess;
  let kserve: KserveClient;
  let asked = 0;

  beforeAll(async () => {
    collector = await startOtelCollector();
    const env = {
      OTEL_EXPORT_ENABLED: '1',
      OTEL_BSP_SCHEDULE_DELAY: '100',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=lab,team=a%20b',
    };
    const grpcPort = await freePort();
    worker = await fleet.worker(['--endpoint', 'traced.backend.generate', '--speedup-ratio=10'], {
      ...env,
      OTEL_SERVICE_NAME: 'worker',
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.httpUrl,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
    });
    frontend = await fleet.frontend(['--namespace', 'traced', `--grpc-port=${grpcPort}`, '--enable-anthropic-api'], {
      ...env,
      OTEL_SERVICE_NAME: 'edge',
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.grpcUrl,
    });
    await fleet.untilWorkers(frontend, 1);
    kserve = new KserveClient(`127.0.0.1:${grpcPort}`);
  });

  afterAll(async () => {
    kserve?.close();
    await collector?.stop();
  });

  const post = (path: string, body: object) => (traceparent: string) =>
    postJson(`${frontend.url}${path}`, body, { headers: { traceparent } });
  const infer = (request: object) => (traceparent: string) =>
    kserve.ask('ModelInfer', [request], [['traceparent', traceparent]]);

  async function overWebSocket(traceparent: string): Promise<void> {
    const socket = new WebSocket(`${frontend.url.replace('http', 'ws')}/v1/responses`, { headers: { traceparent } });
    const events: string[] = [];
    socket.on('message', (data) => events.push(JSON.parse(String(data)).type));
    const event = { type: 'response.create', model: MODEL, input: 'Hello', max_output_tokens: 4 };
    socket.on('open', () => socket.send(JSON.stringify(event)));
    await waitUntil(() => events.some((type) => /^response\.(completed|incomplete)$/.test(type)), {
      timeoutMs: 20_000,
    });
    socket.close();
  }

  const HTTP_POST = { 'http.request.method': 'POST', 'url.scheme': 'http', 'server.address': '127.0.0.1' };
  const LENGTH = { 'gen_ai.response.finish_reasons': ['length'] };
  const cases: readonly Case[] = [
    {
      name: 'a chat with all that can be asked for',
      ask: post('/v1/chat/completions', {
        ...CHAT,
        temperature: 0.5,
        top_p: 0.9,
        top_k: 40,
        seed: 7,
        presence_penalty: 0.25,
        frequency_penalty: 0.75,
        stop: ['never said', 'nor this'],
        n: 2,
      }),
      server: 'POST /v1/chat/completions',
      serverSays: {
        ...HTTP_POST,
        'http.route': '/v1/chat/completions',
        'url.path': '/v1/chat/completions',
        'http.response.status_code': 200,
        'network.protocol.version': '1.1',
        'client.address': '127.0.0.1',
        'request.outcome': 'success',
      },
      operation: `chat ${MODEL}`,
      operationSays: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': 'stator',
        'gen_ai.request.model': MODEL,
        'gen_ai.response.model': MODEL,
        'gen_ai.response.id': expect.stringMatching(/^chatcmpl-/),
        'gen_ai.response.finish_reasons': ['length', 'length'],
        'gen_ai.request.max_tokens': 4,
        'gen_ai.request.temperature': 0.5,
        'gen_ai.request.top_p': 0.9,
        'gen_ai.request.top_k': 40,
        'gen_ai.request.seed': 7,
        'gen_ai.request.presence_penalty': 0.25,
        'gen_ai.request.frequency_penalty': 0.75,
        'gen_ai.request.stop_sequences': ['never said', 'nor this'],
        'gen_ai.request.choice.count': 2,
        'gen_ai.usage.output_tokens': 8,
        'gen_ai.usage.input_tokens': expect.any(Number),
      },
    },
    {
      name: 'a streamed chat by another spelling of the path',
      ask: post('/chat/completions/?api-key=hush&api-version=1', { ...CHAT, stream: true }),
      server: 'POST /v1/chat/completions',
      serverSays: {
        ...HTTP_POST,
        'http.route': '/v1/chat/completions',
        'url.path': '/chat/completions/',
        'url.query': 'api-key=REDACTED&api-version=1',
        'http.response.status_code': 200,
      },
      operation: `chat ${MODEL}`,
      operationSays: {
        ...LENGTH,
        'gen_ai.request.stream': true,
        'gen_ai.response.id': expect.stringMatching(/^chatcmpl-/),
        'gen_ai.response.time_to_first_chunk': expect.any(Number),
      },
    },
    {
      name: 'completions',
      ask: post('/v1/completions', { model: MODEL, prompt: ['a', 'b'], max_tokens: 3, ignore_eos: true }),
      server: 'POST /v1/completions',
      serverSays: { 'http.response.status_code': 200 },
      operation: `text_completion ${MODEL}`,
      operationSays: {
        'gen_ai.response.id': expect.stringMatching(/^cmpl-/),
        'gen_ai.response.finish_reasons': ['length', 'length'],
      },
    },
    {
      name: 'messages',
      ask: post('/v1/messages', { model: MODEL, messages: MESSAGES, max_tokens: 4 }),
      server: 'POST /v1/messages',
      serverSays: { 'http.response.status_code': 200 },
      operation: `chat ${MODEL}`,
      operationSays: { 'gen_ai.response.id': expect.stringMatching(/^msg_/), ...LENGTH },
    },
    {
      name: 'a response',
      ask: post('/v1/responses', { model: MODEL, input: 'Hello', max_output_tokens: 4 }),
      server: 'POST /v1/responses',
      serverSays: { 'http.response.status_code': 200 },
      operation: `chat ${MODEL}`,
      operationSays: { 'gen_ai.response.id': expect.stringMatching(/^resp_/), ...LENGTH },
    },
    {
      name: 'a response over WebSocket',
      ask: overWebSocket,
      server: 'WEBSOCKET /v1/responses',
      serverSays: { 'network.protocol.name': 'websocket', 'url.scheme': 'ws', 'http.route': '/v1/responses' },
      operation: `chat ${MODEL}`,
      operationSays: { 'gen_ai.response.id': expect.stringMatching(/^resp_/), 'gen_ai.request.stream': true },
    },
    {
      name: 'KServe over gRPC',
      ask: infer(TEXT_INPUT),
      server: GRPC_ANSWERS,
      serverSays: {
        'rpc.system.name': 'grpc',
        'rpc.method': GRPC_ANSWERS,
        'rpc.status_code': 'OK',
        'server.address': '127.0.0.1',
        'server.port': expect.any(Number),
      },
      operation: `text_completion ${MODEL}`,
      operationSays: { 'gen_ai.response.id': 'mine', 'gen_ai.request.model': MODEL },
    },
    {
      name: 'a body that is no JSON',
      ask: (traceparent) =>
        fetch(`${frontend.url}/v1/chat/completions`, {
          method: 'POST',
          headers: { traceparent, 'content-type': 'application/json' },
          body: '{',
        }),
      server: 'POST /v1/chat/completions',
      serverSays: { 'http.response.status_code': 400, 'request.outcome': 'validation' },
      operation: 'chat',
      operationSays: { 'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': 'stator' },
      error: ['invalid_json', false],
    },
    {
      name: 'a model that does not exist',
      ask: post('/v1/chat/completions', { ...CHAT, model: 'x'.repeat(200) }),
      server: 'POST /v1/chat/completions',
      serverSays: { 'http.response.status_code': 404 },
      operation: 'chat',
      operationSays: { 'gen_ai.request.model': 'x'.repeat(200) },
      error: ['model_not_found', false],
    },
    {
      name: 'a request of KServe that cannot be right',
      ask: infer({ ...TEXT_INPUT, parameters: { max_tokens: { stringParam: 'many' } } }),
      server: GRPC_ANSWERS,
      serverSays: { 'rpc.status_code': 'INVALID_ARGUMENT' },
      operation: 'text_completion',
      operationSays: {},
      error: ['invalid_value', false],
    },
  ];

  async function traceOf(ask: Case['ask']): Promise<readonly CollectedSpan[]> {
    const traceId = (++asked).toString(16).padStart(32, '0');
    await ask(`00-${traceId}-${'cd'.repeat(8)}-01`);
    const spans = () => collector.spans.filter((span) => span.traceId === traceId);
    const isWhole = () => spans().some(({ parentSpanId }) => parentSpanId === 'cd'.repeat(8));
    await waitUntil(isWhole, { timeoutMs: 20_000 });
    return spans();
  }

  it.each(cases)('$name', async ({ ask, server, serverSays, operation, operationSays, error }) => {
    const spans = await traceOf(ask);
    const root = spans.find(({ parentSpanId }) => parentSpanId === 'cd'.repeat(8))!;
    const work = spans.find(({ parentSpanId }) => parentSpanId === root.spanId)!;
    expect(root).toMatchObject({ name: server, kind: 'server', attributes: serverSays });
    expect(root.resource).toMatchObject({
      'service.name': 'edge',
      'service.instance.id': expect.any(String),
      'deployment.environment.name': 'lab',
      team: 'a b',
      'telemetry.sdk.language': 'nodejs',
    });
    expect(work).toMatchObject({ name: operation, kind: 'client', attributes: operationSays });
    const [type, isServers] = error ?? [];
    expect(work.status.code ?? 0).toBe(type === undefined ? 0 : 2);
    expect(work.attributes['error.type']).toBe(type);
    expect(root.status.code ?? 0).toBe(isServers === true ? 2 : 0);
    expect(root.attributes['error.type']).toBe(isServers === true ? type : undefined);
    for (const span of spans) {
      expect(span.oddKeys).toEqual([]);
      expect(Object.values(span.attributes)).not.toContain(null);
      expect(span.durationNs).toBeGreaterThanOrEqual(0n);
    }
  });

  it('lead from the operation to the worker, which names itself as /health does', async () => {
    const spans = await traceOf(post('/v1/chat/completions', CHAT));
    const traceId = spans[0]!.traceId;
    const named = (name: string) => collector.spans.find((span) => span.traceId === traceId && span.name === name);
    await waitUntil(() => named('handle_payload') !== undefined, { timeoutMs: 20_000 });
    const operation = named(`chat ${MODEL}`)!;
    for (const part of ['tokenize', 'route', 'dispatch']) expect(named(part)?.parentSpanId).toBe(operation.spanId);
    const dispatch = named('dispatch')!;
    expect(named('handle_payload')).toMatchObject({
      parentSpanId: dispatch.spanId,
      kind: 'server',
      resource: { 'service.name': 'worker' },
      attributes: { output_tokens: 4 },
    });
    expect(dispatch.attributes).toMatchObject({ worker_id: worker.instanceId, phase: 'decode' });
    const health = (await (await fetch(`${frontend.url}/health`)).json()) as { instances: { worker: string }[] };
    expect(health.instances.map((instance) => instance.worker)).toContain(worker.instanceId);
    const written = new RegExp(`(worker|instance_id)=${worker.instanceId} `);
    for (const { stderr } of [worker, frontend]) expect(stderr()).toMatch(written);
    expect(
      await frontend.metric('dynamo_frontend_worker_last_time_to_first_token_seconds', worker.instanceId),
    ).toBeGreaterThan(0);
  });
});
