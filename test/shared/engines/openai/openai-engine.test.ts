import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import type { Engine } from '../../../../shared/engines/index.ts';
import {
  createOpenAiEngine,
  type OpenAiEngineOptions,
  openai,
} from '../../../../shared/engines/openai/openai-engine.ts';
import { isMigratable } from '../../../../shared/errors/index.ts';
import type { EngineOutput, EngineRequest } from '../../../../shared/protocol/index.ts';
import { captureLogger, silentLogger } from '../../../../shared/telemetry/log/logger.ts';
import { freePort } from '../../../support/index.ts';
import { RecordingSink } from '../recording-sink.ts';
import { type Answer, chunk, FakeServer, sendEvents, sendJson, startEvents, writeEvent } from './fake-server.ts';

const never = new AbortController().signal;

class Sink extends RecordingSink {
  #onOutput: (() => void)[] = [];

  override tokens(): void {
    throw new Error('a text engine gives no tokens');
  }

  override output(output: EngineOutput): void {
    super.output(output);
    for (const waiter of this.#onOutput.splice(0)) waiter();
  }

  nextOutput(): Promise<void> {
    return new Promise((resolve) => this.#onOutput.push(resolve));
  }
}

const ASKED = { stream_options: { include_usage: true } };

describe('engine behind an OpenAI-compatible server', () => {
  let server: FakeServer;
  const engines: Engine[] = [];

  beforeEach(async () => {
    server = await new FakeServer().start();
  });

  afterEach(async () => {
    for (const engine of engines.splice(0)) await engine.stop();
    await server.stop();
  });

  function create(options: Partial<OpenAiEngineOptions> = {}): Engine {
    const engine = createOpenAiEngine({ url: server.url, ...options }, { clock: systemClock, logger: silentLogger });
    engines.push(engine);
    return engine;
  }

  async function started(options: Partial<OpenAiEngineOptions> = {}): Promise<Engine> {
    const engine = create(options);
    await engine.start(never);
    return engine;
  }

  async function ask(engine: Engine, body: Record<string, unknown> = {}, endpoint = 'chat_completions'): Promise<Sink> {
    const sink = new Sink();
    engine.generate(textRequest({ stream: true, ...body }, endpoint), sink, never);
    await sink.closed;
    return sink;
  }

  it('learns the model’s name and context from the server', async () => {
    for (const url of [server.url, `${server.url}/v1`, `${server.url}/v1/`]) {
      expect(await create({ url }).start(never)).toMatchObject({
        modelName: 'upstream-model',
        contextLength: 2048,
        modelInput: 'Text',
        publishesKvEvents: false,
      });
    }
  });

  it('says which engine answers chats, if the server lists its models under its own name', async () => {
    const chatEngine = async (owned_by: string) => {
      server.models = { object: 'list', data: [{ id: 'm', object: 'model', owned_by }] };
      return (await create().start(never)).chatEngine;
    };
    expect([await chatEngine('vllm'), await chatEngine('sglang')]).toEqual(['vllm', 'sglang']);
    expect(await chatEngine('organization-owner')).toBeUndefined();
  });

  it('says which models there are where it serves the first of several', async () => {
    server.models = { object: 'list', data: ['first', 'second', 'third'].map((id) => ({ id, object: 'model' })) };
    const { logger, lines } = captureLogger();
    const deps = { clock: systemClock, logger: logger.for('worker') };
    const engine = createOpenAiEngine({ url: server.url }, deps);
    engines.push(engine);
    await engine.start(never);
    expect(lines).toMatchObject([{ level: 'info', fields: { served: 'first', others: 'second, third' } }]);
    const named = createOpenAiEngine({ url: server.url, modelName: 'second' }, deps);
    engines.push(named);
    expect(await named.start(never)).toMatchObject({ modelName: 'second' });
    expect(lines).toHaveLength(1);
  });

  it('serves the configured model when the server lists none', async () => {
    server.modelsStatus = 404;
    expect(await create({ modelName: 'm' }).start(never)).toMatchObject({ modelName: 'm', contextLength: undefined });
    await expect(create().start(never)).rejects.toThrow('lists no model: name it');
  });

  it('names the listed models when the configured one is not among them', async () => {
    await expect(create({ modelName: 'm' }).start(never)).rejects.toThrow(
      'does not serve `m` (it lists: upstream-model)',
    );
  });

  it('waits for it as long as the settings say', async () => {
    const flags = ['--engine=openai', `--engine-url=http://127.0.0.1:${await freePort()}`];
    const config = resolveConfig('worker', flags, { STATOR_ENGINE_START_TIMEOUT_SECS: '0.3' });
    const context = { clock: systemClock, logger: silentLogger, at: 0, onDroppedKvEvents: () => {} };
    const { engine } = await openai.open(config, context);
    engines.push(engine);
    await expect(engine.start(never)).rejects.toThrow('within 300 ms');
  });

  it('names what to check when no server listens, the key is refused or the URL is invalid', async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    await expect(create({ url, startTimeoutMs: 300 }).start(never)).rejects.toThrow(
      /no engine at .* within 300 ms.*check the URL/,
    );
    server.modelsStatus = 401;
    await expect(create({ apiKey: 'wrong' }).start(never)).rejects.toThrow('check the key');
    expect(() => create({ url: 'localhost:8000' })).toThrow('must start with http:// or https://');
  });

  it('waits for a server that is still loading', async () => {
    server.modelsStatus = 503;
    const starting = create().start(never);
    await systemClock.sleep(50);
    server.modelsStatus = 200;
    expect(await starting).toMatchObject({ modelName: 'upstream-model' });
  });

  it('asks every stream of text for its usage, with what the client asked beside it, and nothing else', async () => {
    const engine = await started();
    await ask(engine, { prompt: 'x', stream_options: { continuous_usage_stats: true } }, 'completions');
    expect(server.received[0]?.body.stream_options).toEqual({ continuous_usage_stats: true, include_usage: true });
    server.answer = ({ response }) => sendJson(response, 200, { choices: [] });
    await ask(engine, { messages: [], stream: false });
    expect(server.received[1]?.body).not.toHaveProperty('stream_options');
  });

  it('passes the body through, with the server’s own name of the model and the key', async () => {
    const engine = await started({ apiKey: 'secret' });
    const body = { model: 'ours', messages: [{ role: 'user', content: 'x' }], odd: { kept: [1, null] } };
    await ask(engine, body);
    await ask(engine, { prompt: 'x' }, 'completions');
    expect(server.received[0]?.path).toBe('/v1/chat/completions');
    expect(server.received[0]?.body).toEqual({ ...body, ...ASKED, stream: true, model: 'upstream-model' });
    expect(server.received[0]?.headers).toMatchObject({ authorization: 'Bearer secret', 'x-request-id': 'r1' });
    expect(server.received[1]?.path).toBe('/v1/completions');
  });

  it('passes media, embeddings and images on as clients sent them', async () => {
    const engine = await started();
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
    await ask(engine, { messages: [{ role: 'user', content: [image] }] });
    expect(server.received.at(-1)?.body.messages).toEqual([{ role: 'user', content: [image] }]);
    const routes = [
      ['embeddings', '/v1/embeddings'],
      ['images', '/v1/images/generations'],
      ['videos', '/v1/videos'],
    ] as const;
    for (const [endpoint, path] of routes) {
      server.answer = ({ response }) => sendJson(response, 200, { object: 'list', data: [endpoint] });
      const sink = await ask(engine, { stream: false, input: 'x' }, endpoint);
      expect(server.received.at(-1)?.path).toBe(path);
      expect(sink.outputs).toEqual([{ body: { object: 'list', data: [endpoint] } }]);
    }
  });

  it('tells the server the client’s own request id and trace', async () => {
    const engine = await started();
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const trace = { traceparent, tracestate: 'a=b', requestId: 'client-7' };
    const sink = new Sink();
    engine.generate({ ...textRequest({ stream: true }, 'chat_completions'), trace }, sink, never);
    await sink.closed;
    expect(server.received[0]?.headers).toMatchObject({ traceparent, tracestate: 'a=b', 'x-request-id': 'client-7' });
  });

  it('gives every chunk as it came, with finish and usage beside it', async () => {
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
    const chunks = [
      chunk('a', null),
      chunk('b', null, 1),
      chunk('', 'tool_calls'),
      chunk('', 'length', 1),
      { id: 'x', object: 'chat.completion.chunk', choices: [], usage },
    ];
    server.answer = ({ response }) => sendEvents(response, chunks);
    const sink = await ask(await started());
    expect(sink.outputs.map((output) => output.body)).toEqual(chunks);
    expect(sink.outputs.map(({ body: _, ...rest }) => rest)).toEqual([
      { index: 0 },
      { index: 1 },
      { index: 0, finish_reason: 'stop' },
      { index: 1, finish_reason: 'length' },
      { completion_usage: usage },
    ]);
    expect(sink.isEnded).toBe(true);
  });

  it('gives one whole object for a request that does not stream', async () => {
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
    const body = { id: 'x', choices: [{ index: 0, message: { content: 'hi' }, finish_reason: 'stop' }], usage };
    server.answer = ({ response }) => sendJson(response, 200, body);
    const sink = await ask(await started(), { stream: false });
    expect(sink.outputs).toEqual([{ body, index: 0, finish_reason: 'stop', completion_usage: usage }]);
    expect(sink.isEnded).toBe(true);
  });

  it('gives the list of embeddings as it came, and counts its tokens', async () => {
    const body = {
      object: 'list',
      data: [{ index: 0, embedding: [0.5] }],
      usage: { prompt_tokens: 1, total_tokens: 1 },
    };
    server.answer = ({ response }) => sendJson(response, 200, body);
    const sink = await ask(await started(), { input: 'x', stream: false }, 'embeddings');
    expect(server.received[0]?.path).toBe('/v1/embeddings');
    expect(sink.outputs).toEqual([
      { body, completion_usage: { prompt_tokens: 1, completion_tokens: 0, total_tokens: 1 } },
    ]);
    expect(sink.isEnded).toBe(true);
  });

  it('takes a stream without [DONE] as complete once it has a finish reason', async () => {
    server.answer = ({ response }) => sendEvents(response, [chunk('a', 'stop')], '');
    expect((await ask(await started())).isEnded).toBe(true);
  });

  it.each<[string, Answer, string, number, boolean]>([
    [
      '400',
      ({ response }) => sendJson(response, 400, { error: { message: 'too long', param: 'messages' } }),
      'InvalidArgument',
      400,
      false,
    ],
    ['409', ({ response }) => sendJson(response, 409, { detail: 'bad' }), 'InvalidArgument', 409, false],
    ['401', ({ response }) => sendJson(response, 401, { error: { message: 'key' } }), 'BackendProtocol', 502, false],
    ['404', ({ response }) => sendJson(response, 404, { error: { message: 'no model' } }), 'NotFound', 404, false],
    [
      '429 of a full server',
      ({ response }) => sendJson(response, 429, { error: 'overloaded' }),
      'WorkerOverloaded',
      429,
      true,
    ],
    [
      '429 of a rate limit',
      ({ response }) => sendJson(response, 429, { error: { code: 'rate_limit_exceeded' } }),
      'RateLimited',
      429,
      false,
    ],
    ['500', ({ response }) => sendJson(response, 500, 'oops'), 'Unknown', 500, false],
    ['503', ({ response }) => sendJson(response, 503, {}), 'WorkerUnavailable', 503, true],
    ['JSON instead of a stream', ({ response }) => sendJson(response, 200, {}), 'BackendProtocol', 502, false],
    [
      'an error in the stream',
      ({ response }) => sendEvents(response, [chunk('a', null), { error: { message: 'died', code: 500 } }]),
      'Unknown',
      500,
      false,
    ],
    [
      'an event that is not JSON',
      ({ response }) => sendEvents(response, [], 'data: {"a\n\n'),
      'BackendProtocol',
      502,
      false,
    ],
    [
      'a stream without a finish',
      ({ response }) => sendEvents(response, [chunk('a', null)], ''),
      'StreamIncomplete',
      503,
      true,
    ],
    [
      'a reset before the answer',
      ({ response }) => void response.socket?.resetAndDestroy(),
      'EngineShutdown',
      503,
      true,
    ],
  ])('reports %s as what it means', async (_, answer, kind, status, canMove) => {
    server.answer = answer;
    const { error } = await ask(await started());
    expect(error?.worker).toBe(kind);
    expect(error?.status).toBe(status);
    expect(error !== undefined && isMigratable(error)).toBe(canMove);
  });

  it.each([
    [429, { 'retry-after': '7' }, 7000],
    [429, { 'retry-after': '7', 'retry-after-ms': '6500' }, 6500],
    [503, { 'retry-after': '30' }, 30_000],
    [529, { 'retry-after': '5' }, 5000],
    [529, {}, 1000],
    [503, {}, 1000],
    [429, { 'retry-after': 'soon' }, 1000],
    [429, { 'retry-after': '999999999' }, 86_400_000],
  ])('passes on when a %i with %j may be tried again', async (status, headers, retryAfterMs) => {
    server.answer = ({ response }) => {
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      sendJson(response, status, { error: { message: 'later' } });
    };
    expect((await ask(await started())).error?.retryAfterMs).toBe(retryAfterMs);
  });

  it('reads a date for the next try as what is left until then', async () => {
    server.answer = ({ response }) => {
      response.setHeader('retry-after', new Date(Date.now() + 60_000).toUTCString());
      sendJson(response, 503, {});
    };
    const { error } = await ask(await started());
    expect(error?.retryAfterMs).toBeGreaterThan(30_000);
    expect(error?.retryAfterMs).toBeLessThanOrEqual(60_000);
  });

  it('shows a client’s mistake in the server’s own words', async () => {
    server.answer = ({ response }) => sendJson(response, 400, { error: { message: 'too long', param: 'messages' } });
    const { error } = await ask(await started());
    expect(error).toMatchObject({ message: 'too long', param: 'messages' });
  });

  it('calls the engine gone when it fails and its health check fails too', async () => {
    server.answer = ({ response }) => sendJson(response, 500, {});
    server.healthStatus = 503;
    expect((await ask(await started())).error?.worker).toBe('EngineShutdown');
  });

  it('reports the engine as gone when no server listens any more', async () => {
    const engine = await started();
    await server.stop();
    expect((await ask(engine)).error?.worker).toBe('EngineShutdown');
    await expect(engine.health(never)).rejects.toThrow();
  });

  it('reports a connection lost in the middle as one that can move', async () => {
    server.answer = ({ response }) => {
      startEvents(response);
      response.write(`data: ${JSON.stringify(chunk('a', null))}\n\n`, () => response.socket?.resetAndDestroy());
    };
    const { error, outputs } = await ask(await started());
    expect(outputs).toHaveLength(1);
    expect(error?.worker).toBe('Disconnected');
  });

  it('calls an answer beyond any bound the engine’s own fault, which another worker need not repeat', async () => {
    server.answer = ({ response }) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(Buffer.alloc(64 * 1024 * 1024 + 1, ' '));
    };
    const { error } = await ask(await started(), { stream: false });
    expect(error).toMatchObject({ worker: 'BackendProtocol' });
  });

  it('gives up an engine that says nothing', async () => {
    server.answer = ({ response }) => {
      startEvents(response);
      writeEvent(response, chunk('a', null));
    };
    const engine = await started({ idleTimeoutMs: 100 });
    expect((await ask(engine)).error?.worker).toBe('ResponseTimeout');
    await server.received[0]?.dropped;
  });

  it('closes the connection at once on abort and leaves the sink alone', async () => {
    server.answer = ({ response }) => {
      startEvents(response);
      writeEvent(response, chunk('a', null));
    };
    const engine = await started();
    const abort = new AbortController();
    const sink = new Sink();
    engine.generate(textRequest({ stream: true }), sink, abort.signal);
    await sink.nextOutput();
    expect(engine.load()[0]?.runningRequests).toBe(1);
    abort.abort();
    await server.received[0]?.dropped;
    expect(engine.load()[0]?.runningRequests).toBe(0);
    expect(sink).toMatchObject({ isEnded: false, error: undefined });
  });

  it('sends nothing for a request that was aborted before', async () => {
    const engine = await started();
    engine.generate(textRequest({ stream: true }), new Sink(), AbortSignal.abort());
    await ask(engine);
    expect(server.received).toHaveLength(1);
  });

  it('stops reading while the reader has no room, and goes on after', async () => {
    const big = 'x'.repeat(64 * 1024);
    let written = 0;
    server.answer = ({ response }) => {
      startEvents(response);
      writeEvent(response, chunk('a', null));
      const fill = (): void => {
        while (written < 400) {
          written++;
          if (!writeEvent(response, chunk(big, null))) {
            response.once('drain', fill);
            return;
          }
        }
        writeEvent(response, chunk('', 'stop'));
        response.end('data: [DONE]\n\n');
      };
      fill();
    };
    const engine = await started();
    const sink = new Sink();
    sink.isFull = true;
    engine.generate(textRequest({ stream: true }), sink, never);
    await sink.nextOutput();
    await systemClock.sleep(200); // long enough for 25 MB to arrive, if anybody read them
    expect(sink.outputs.length).toBeLessThan(20);
    expect(written).toBeLessThan(400);
    sink.unblock();
    await sink.closed;
    expect(sink.outputs).toHaveLength(402);
  });

  it('fails what runs when it stops, and everything after', async () => {
    server.answer = ({ response }) => {
      startEvents(response);
      writeEvent(response, chunk('a', null));
    };
    const engine = await started();
    const sink = new Sink();
    engine.generate(textRequest({ stream: true }), sink, never);
    await sink.nextOutput();
    await engine.stop();
    expect(sink.error?.worker).toBe('EngineShutdown');
    await server.received[0]?.dropped;
    expect((await ask(engine)).error?.worker).toBe('EngineShutdown');
  });

  it('refuses tokens and routes that such servers do not have', async () => {
    const engine = await started();
    expect((await ask(engine, {}, 'tensor')).error?.worker).toBe('NotImplemented');
    const sink = new Sink();
    const input = { kind: 'tokens', tokenIds: Uint32Array.of(1) } as const;
    engine.generate({ ...textRequest({}), input }, sink, never);
    expect(sink.error?.worker).toBe('NotImplemented');
  });

  it('is healthy while the server is, with a health route or without', async () => {
    const engine = await started();
    await engine.health(never);
    server.healthStatus = 404;
    await engine.health(never);
    server.healthStatus = 503;
    await expect(engine.health(never)).rejects.toMatchObject({ worker: 'Unavailable' });
  });
});

function textRequest(body: Record<string, unknown>, endpoint = 'chat_completions'): EngineRequest {
  return {
    id: 'r1',
    model: 'ours',
    input: { kind: 'text', endpoint, body },
    stop: {},
    sampling: {},
    output: {},
    eosTokenIds: [],
    routing: {},
    annotations: [],
  };
}
