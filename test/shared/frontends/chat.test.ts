import { describe, expect, it } from 'vitest';
import { ServeError, workerError } from '../../../shared/errors/index.ts';
import type { Frame, JsonObject } from '../../support/dynamo-http/records.ts';
import { parseFrames } from '../../support/dynamo-http/wire-answer.ts';
import { type GenerationEvent, tell } from '../../support/generation-events.ts';
import { createTestApp, type TestAppOptions } from '../../support/http-app.ts';
import { defaultHttpSettings } from '../../support/http-settings.ts';
import { playTexts, type ScriptedCall, ScriptedPipeline } from '../../support/scripted-pipeline.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const MESSAGES = [{ role: 'user', content: 'hi' }];

function post(fields: object, headers: Readonly<Record<string, string>> = {}): Request {
  return new Request('http://localhost/v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'm', messages: MESSAGES, ...fields }),
  });
}

/** Answers one request with what `play` writes. */
async function answer(fields: object, play: (call: ScriptedCall) => void, options: TestAppOptions = {}) {
  const pipeline = new ScriptedPipeline().onGenerate(play);
  const test = createTestApp({ pipeline, ...options });
  const response = await test.app.fetch(post(fields));
  return { ...test, response, text: await response.text() };
}

async function chunks(fields: object, play: (call: ScriptedCall) => void): Promise<readonly JsonObject[]> {
  const { text } = await answer({ stream: true, ...fields }, play);
  return parseFrames(text)
    .map((frame: Frame) => frame.data)
    .filter((data): data is JsonObject => typeof data === 'object' && data !== null);
}

const choiceOf = (chunk: JsonObject | undefined) => (chunk?.choices as readonly JsonObject[] | undefined)?.[0];
const finish = (more: Partial<Extract<GenerationEvent, { kind: 'finish' }>> = {}): GenerationEvent => ({
  kind: 'finish',
  choice: 0,
  text: '',
  tokenIds: [],
  reason: 'stop',
  ...more,
});
const USAGE = { promptTokens: 3, completionTokens: 2 };

describe('a chat stream', () => {
  it('is one frame an output: role, texts, finish, usage, done', async () => {
    const { text, response } = await answer({ stream: true, stream_options: { include_usage: true } }, ({ sink }) =>
      playTexts(sink, ['He', 'llo']),
    );
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    expect(response.headers.get('cache-control')).toBe('no-cache');
    expect(response.headers.get('x-accel-buffering')).toBe('no'); // or nginx holds tokens back
    const id = /"id":"(chatcmpl-[0-9a-f-]+)","choices"/.exec(text)?.[1];
    const created = /"created":(\d+)/.exec(text)?.[1];
    const frame = (choices: string, usage = 'null') =>
      `data: {"id":"${id}","choices":[${choices}],"created":${created},"model":"m",` +
      `"object":"chat.completion.chunk","usage":${usage}}\n\n`;
    const choice = (delta: string, reason = 'null') =>
      `{"index":0,"delta":${delta},"finish_reason":${reason},"logprobs":null}`;
    expect(text).toBe(
      frame(choice('{"role":"assistant","content":""}')) +
        frame(choice('{"content":"He"}')) +
        frame(choice('{"content":"llo"}')) +
        frame(choice('{}', '"stop"')) +
        frame('', '{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6}') +
        'data: [DONE]\n\n',
    );
  });

  it('keeps choices apart and says each role once', async () => {
    const seen = await chunks({ n: 2 }, ({ sink }) => {
      sink.text(1, 'b', 1);
      sink.text(0, 'a', 1);
      sink.text(1, 'c', 1);
      tell(sink, finish({ choice: 0, reason: 'length' }));
      tell(sink, finish({ choice: 1 }));
      sink.end(USAGE, true);
    });
    const told = seen.map((chunk) => [choiceOf(chunk)?.index, choiceOf(chunk)?.delta, choiceOf(chunk)?.finish_reason]);
    expect(told).toEqual([
      [1, { role: 'assistant', content: '' }, null],
      [1, { content: 'b' }, null],
      [0, { role: 'assistant', content: '' }, null],
      [0, { content: 'a' }, null],
      [1, { content: 'c' }, null],
      [0, {}, 'length'],
      [1, {}, 'stop'],
    ]);
  });

  it('sends nothing for an output without text, beyond the role', async () => {
    const seen = await chunks({}, ({ sink }) => {
      sink.text(0, '', 1);
      sink.text(0, '', 1);
      tell(sink, finish({ text: 'é' }));
      sink.end(USAGE, true);
    });
    expect(seen.map((chunk) => choiceOf(chunk)?.delta)).toEqual([{ role: 'assistant', content: '' }, { content: 'é' }]);
  });

  it('escapes what JSON and lines of an event cannot hold', async () => {
    const text = 'a"\\\n\r\u2028\ud83d\ude00\u0000';
    const seen = await chunks({}, ({ sink }) => playTexts(sink, [text]));
    expect(choiceOf(seen[1])?.delta).toEqual({ content: text });
  });

  it('opens with null content when a tool call comes first', async () => {
    const seen = await chunks({}, ({ sink }) => {
      tell(sink, { kind: 'tool-call', choice: 0, index: 0, id: 'call_1', name: 'f' });
      tell(sink, { kind: 'tool-arguments', choice: 0, index: 0, text: '{"a":1}' });
      tell(sink, finish({ reason: 'tool_calls' }));
      sink.end(USAGE, true);
    });
    expect(seen.map((chunk) => choiceOf(chunk)?.delta)).toEqual([
      { role: 'assistant', content: null },
      { tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: '' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '{"a":1}' } }] },
      {},
    ]);
  });

  it('has no usage chunk when the worker gave no finish reason', async () => {
    const seen = await chunks({ stream_options: { include_usage: true } }, ({ sink }) => {
      sink.text(0, 'a', 1);
      sink.end(USAGE, false);
    });
    expect(seen).toHaveLength(2);
  });

  it('counts up on every chunk when asked to', async () => {
    const options = { stream_options: { include_usage: true, continuous_usage_stats: true } };
    const seen = await chunks(options, ({ sink, options: { meter } }) => {
      meter.promptTokens(3);
      meter.cachedTokens(2);
      for (const text of ['a', 'b']) {
        meter.outputTokens(2);
        sink.text(0, text, 2);
      }
      tell(sink, finish());
      sink.end({ promptTokens: 3, completionTokens: 4, cachedTokens: 2 }, true);
    });
    const counts = seen.map((chunk) => (chunk.usage as JsonObject).completion_tokens);
    expect(counts).toEqual([2, 2, 4, 4, 4]);
    expect(seen[0]?.usage).toMatchObject({ prompt_tokens: 3, prompt_tokens_details: { cached_tokens: 2 } });
  });

  it('shows what nvext asked for, where it belongs', async () => {
    const extra_fields = ['worker_id', 'completion_token_ids', 'stop_reason', 'timing', 'engine_data'];
    const RANKS = { prefillDpRank: 3, decodeDpRank: 1 };
    const seen = await chunks({ nvext: { extra_fields } }, ({ sink }) => {
      tell(sink, { kind: 'worker', prefillWorkerId: 'ffffffffffffff', decodeWorkerId: '10', ...RANKS });
      tell(sink, { kind: 'delta', choice: 0, text: 'a', tokenIds: [7] });
      tell(sink, { kind: 'engine-data', data: { x: 1 } });
      tell(sink, finish({ tokenIds: [8], stopReason: 'END' }));
      sink.end(USAGE, true);
    });
    const nvext = seen.map((chunk) => chunk.nvext as JsonObject);
    expect(nvext[0]).toHaveProperty('worker_id.decode_worker_id', 16);
    expect(nvext[1]).toMatchObject({ completion_token_ids: [7], worker_id: { prefill_dp_rank: 3, decode_dp_rank: 1 } });
    expect(nvext[2]).toMatchObject({ completion_token_ids: [8], stop_reason: 'END', engine_data: { x: 1 } });
    expect(nvext[2]).toHaveProperty('timing.ttft_ms');
  });

  it('answers a routing dry run with one chunk that only says who speaks, and no finish', async () => {
    const asked = { nvext: { annotations: ['query_instance_id:'] } };
    const routed: GenerationEvent = { kind: 'routed', tokenIds: [5, 6], prefillWorkerId: '10', decodeWorkerId: '11' };
    const { text } = await answer({ stream: true, ...asked }, ({ sink }) => tell(sink, routed));
    const [chunk, ...rest] = parseFrames(text).map(({ data }) => data) as JsonObject[];
    expect(choiceOf(chunk)).toEqual({
      index: 0,
      delta: { role: 'assistant', content: '' },
      finish_reason: null,
      logprobs: null,
    });
    expect(chunk?.nvext).toEqual({ worker_id: { prefill_worker_id: 16, decode_worker_id: 17 }, token_ids: [5, 6] });
    expect(rest).toEqual(['[DONE]']);

    const whole = await answer(asked, ({ sink }) => tell(sink, routed));
    const body = JSON.parse(whole.text) as JsonObject;
    expect(whole.response.status).toBe(200);
    expect(choiceOf(body)).toMatchObject({ message: { role: 'assistant', content: null }, finish_reason: null });
    expect([body.nvext, body.usage]).toEqual([chunk?.nvext, undefined]);
  });

  it('puts engine data that comes last into a chunk of its own', async () => {
    const seen = await chunks({ nvext: { extra_fields: ['engine_data'] } }, ({ sink }) => {
      sink.text(0, 'a', 1);
      tell(sink, finish());
      tell(sink, { kind: 'engine-data', data: { x: 1 } });
      sink.end(USAGE, true);
    });
    expect(seen.at(-1)).toMatchObject({ nvext: { engine_data: { x: 1 } } });
  });

  const toldBy =
    (...bodies: object[]) =>
    async (options: object) => {
      const seen = await chunks(options, ({ sink }) => {
        for (const body of bodies) tell(sink, { kind: 'body', body });
        sink.end(USAGE, true);
      });
      return seen.map(({ choices, usage }) => ({ choices: (choices as unknown[]).length, usage }));
    };
  const SPENT = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };

  it("shows a text worker's usage only to clients that asked", async () => {
    const choices = [{ index: 0, delta: { content: 'a' }, finish_reason: 'stop' }];
    const apart = toldBy({ choices, usage: null }, { choices: [], usage: SPENT });
    expect(await apart({})).toEqual([{ choices: 1, usage: undefined }]);
    expect(await apart({ stream_options: { include_usage: true } })).toEqual([
      { choices: 1, usage: null },
      { choices: 0, usage: SPENT },
    ]);
    const beside = toldBy({ choices, usage: SPENT });
    expect(await beside({})).toEqual([{ choices: 1, usage: undefined }]);
    expect(await beside({ stream_options: { include_usage: true } })).toEqual([
      { choices: 1, usage: null },
      { choices: 0, usage: SPENT },
    ]);
    const untold = toldBy({ choices });
    expect(await untold({ stream_options: { include_usage: true } })).toEqual([
      { choices: 1, usage: null },
      { choices: 0, usage: SPENT },
    ]);
  });

  it("passes a text worker's own chunks on, under the answer's names", async () => {
    const seen = await chunks({}, ({ sink, request }) => {
      tell(sink, {
        kind: 'body',
        body: { id: 'x', model: '/models/y', choices: [{ index: 0, delta: { content: 'a' } }] },
      });
      sink.end(USAGE, true);
      expect(request.body).toMatchObject({ messages: MESSAGES });
    });
    expect(seen).toHaveLength(1);
    expect(seen[0]).toMatchObject({ model: 'm', id: expect.stringMatching(/^chatcmpl-/) });
  });
});

describe('the status of a chat stream', () => {
  const waiting = { stream: true };

  it("is the failure's own when it comes before the first event", async () => {
    const { response, text } = await answer({ stream: true, nvext: { annotations: ['request_id'] } }, ({ sink }) =>
      sink.fail(workerError('RateLimited')),
    );
    expect(response.status).toBe(429);
    expect(JSON.parse(text)).toEqual({
      error: { message: 'Rate limit exceeded', type: 'rate_limit_error', param: null, code: 'rate_limit_exceeded' },
    });
  });

  it('is 200 once an event came; a later failure is an event and the end', async () => {
    const { response, text } = await answer(waiting, ({ sink }) => {
      sink.text(0, 'a', 1);
      sink.fail(workerError('EngineShutdown', 'out of memory at 0x1'));
    });
    expect(response.status).toBe(200);
    expect(text.split('\n\n').slice(-3)).toEqual([
      'data: {"error":{"message":"Service temporarily unavailable","type":"server_error","param":null,"code":"worker_lost"}}',
      'data: [DONE]',
      '',
    ]);
  });

  it('waits for the first event for the peek time, then begins with a comment', async () => {
    const clock = new VirtualClock();
    const pipeline = new ScriptedPipeline();
    const { app } = createTestApp({ pipeline, clock });
    const pending = app.fetch(post(waiting));
    const { sink } = await pipeline.call(0);
    let isAnswered = false;
    const answered = Promise.resolve(pending).then((response) => {
      isAnswered = true;
      return response;
    });
    await clock.advance(1999);
    expect(isAnswered).toBe(false);
    await clock.advance(1);
    const response = await answered;
    expect(response.status).toBe(200);
    playTexts(sink, ['a']);
    expect((await response.text()).startsWith(':\n\ndata: ')).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });

  it('does not wait when the peek time is 0', async () => {
    const pipeline = new ScriptedPipeline();
    const { app } = createTestApp({ pipeline, settings: { peekMs: 0 } });
    const response = await app.fetch(post(waiting));
    expect(response.status).toBe(200);
    (await pipeline.call(0)).sink.fail(new ServeError('internal_error', 'Internal server error'));
    expect(await response.text()).toContain('"internal_error"');
  });

  it('sends comments while nothing else is sent, and arms no timer without', async () => {
    const clock = new VirtualClock();
    const pipeline = new ScriptedPipeline();
    const { app } = createTestApp({ pipeline, clock, settings: { keepAliveMs: 100 } });
    const pending = app.fetch(post(waiting));
    const { sink } = await pipeline.call(0);
    sink.text(0, 'a', 1);
    const response = await pending;
    await clock.advance(350);
    playTexts(sink, []);
    const comments = (await response.text()).split('\n\n').filter((frame) => frame === ':');
    expect(comments).toHaveLength(2);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('a unary chat', () => {
  it('collects choices, reasoning, tool calls and usage in one object', async () => {
    const { response, text } = await answer({ n: 2 }, ({ sink }) => {
      tell(sink, { kind: 'reasoning', choice: 0, text: 'why' });
      sink.text(0, 'He', 1);
      sink.text(0, 'llo', 1);
      tell(sink, { kind: 'tool-call', choice: 1, index: 0, id: 'call_1', name: 'f' });
      tell(sink, { kind: 'tool-arguments', choice: 1, index: 0, text: '{}' });
      tell(sink, finish({ text: '!', reason: 'length' }));
      tell(sink, finish({ choice: 1, reason: 'tool_calls' }));
      sink.end({ promptTokens: 3, completionTokens: 5, cachedTokens: 1, reasoningTokens: 2 }, true);
    });
    expect(response.headers.get('content-length')).toBe(String(Buffer.byteLength(text)));
    expect(JSON.parse(text)).toMatchObject({
      object: 'chat.completion',
      model: 'm',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Hello!', refusal: null, reasoning_content: 'why' },
          finish_reason: 'length',
          logprobs: null,
        },
        {
          index: 1,
          message: {
            content: null,
            tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }],
          },
          finish_reason: 'tool_calls',
        },
      ],
      usage: {
        prompt_tokens: 3,
        completion_tokens: 5,
        total_tokens: 8,
        prompt_tokens_details: { cached_tokens: 1 },
        completion_tokens_details: { reasoning_tokens: 2 },
      },
    });
  });

  it("collects a text worker's chunks", async () => {
    const { text } = await answer({}, ({ sink }) => {
      const part = (choice: object, more: object = {}) =>
        tell(sink, { kind: 'body', body: { id: 'x', choices: [{ index: 0, ...choice }], ...more } });
      part({ delta: { role: 'assistant', content: 'a' }, finish_reason: null });
      part({ delta: { content: 'b', tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: '{' } }] } });
      part({ delta: { tool_calls: [{ index: 0, function: { arguments: '}' } }] }, finish_reason: 'stop' });
      sink.end(USAGE, true);
    });
    expect(JSON.parse(text)).toMatchObject({
      object: 'chat.completion',
      model: 'm',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: 'ab',
            tool_calls: [{ id: 'c', function: { name: 'f', arguments: '{}' } }],
          },
          finish_reason: 'stop',
        },
      ],
      usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
    });
  });

  it("gives a text worker's choice the keys that it had nothing to say under", async () => {
    for (const said of [{ delta: { content: 'a' } }, { message: { role: 'assistant', content: 'a' } }]) {
      const { text } = await answer({}, ({ sink }) => {
        tell(sink, { kind: 'body', body: { choices: [{ index: 0, ...said, finish_reason: 'stop' }] } });
        sink.end(USAGE, true);
      });
      expect(JSON.parse(text).choices).toEqual([
        {
          index: 0,
          message: { role: 'assistant', content: 'a', refusal: null },
          finish_reason: 'stop',
          logprobs: null,
        },
      ]);
    }
  });

  it('is a failure when the worker sends nothing', async () => {
    const { response } = await answer({}, ({ sink }) => sink.end({ promptTokens: 1, completionTokens: 0 }, false));
    expect(response.status).toBe(500);
  });

  it('has no usage and no reason when the worker gave none', async () => {
    const { text } = await answer({}, ({ sink }) => {
      sink.text(0, 'a', 1);
      sink.end(USAGE, false);
    });
    expect(JSON.parse(text)).not.toHaveProperty('usage');
    expect(JSON.parse(text)).toMatchObject({ choices: [{ finish_reason: null }] });
  });
});

describe('overload', () => {
  it('is 503 with Retry-After unless configured otherwise, by code and not by number', async () => {
    const full = ({ sink }: ScriptedCall) => sink.fail(workerError('ResourceExhausted'));
    const { response, text } = await answer({}, full);
    expect(response.status).toBe(503);
    expect(response.headers.get('retry-after')).toBe('1');
    expect(JSON.parse(text)).toMatchObject({ error: { type: 'overloaded_error', code: 'server_overloaded' } });
    const configured = await answer({ stream: true }, full, { settings: { overloadStatus: 529 } });
    expect(configured.response.status).toBe(529);
    const down = await answer({}, ({ sink }) => sink.fail(workerError('Unavailable')), {
      settings: { overloadStatus: 529 },
    });
    expect(down.response.status).toBe(503);
    expect(down.response.headers.get('retry-after')).toBe('1');
  });
});

describe('what operators see of a chat', () => {
  it('is one line at info, with ids, counts and outcome', async () => {
    const { lines } = await answer({}, ({ sink }) => playTexts(sink, ['a']));
    const infos = lines.filter((line) => line.level === 'info');
    expect(infos).toHaveLength(1);
    expect(infos[0]).toMatchObject({
      message: 'request completed',
      fields: {
        model: 'm',
        endpoint: 'chat_completions',
        request_type: 'unary',
        status: 200,
        input_tokens: 3,
        output_tokens: 2,
      },
    });
  });

  it('counts names that no worker serves under one label', async () => {
    const { deps, response, lines } = await answer({ model: 'nope' }, () => undefined);
    expect(response.status).toBe(404);
    const text = await deps.metrics.render();
    expect(text).toMatch(/requests_total\{.*model="unknown_model".*error_type="not_found"/);
    expect(text).not.toContain('nope');
    expect(lines.filter((line) => line.level === 'info')).toHaveLength(1);
  });

  it('counts a client that left as cancelled and frees the worker', async () => {
    const pipeline = new ScriptedPipeline();
    const { app, deps, lifecycle, lines } = createTestApp({ pipeline });
    const leaving = new AbortController();
    const pending = app.fetch(new Request(post({ stream: true }), { signal: leaving.signal }));
    const { sink, options } = await pipeline.call(0);
    sink.text(0, 'a', 1);
    await pending;
    expect(lifecycle.inflight).toBe(1);
    leaving.abort();
    expect(options.signal.aborted).toBe(true);
    sink.text(0, 'late', 1);
    sink.end(USAGE, true);
    expect(lifecycle.inflight).toBe(0);
    const text = await deps.metrics.render();
    expect(text).toMatch(/disconnected_clients 1/);
    expect(text).toMatch(/model_cancellation_total\{.*\} 1/);
    expect(text).toMatch(/requests_total\{.*error_type="cancelled".*\} 1/);
    expect(lines.at(-1)).toMatchObject({ fields: { status: 499, error_type: 'cancelled' } });
  });
});

describe('a host with a deadline', () => {
  it('gets an answer that ends with an error when the deadline passes', async () => {
    const pipeline = new ScriptedPipeline();
    const { app } = createTestApp({ pipeline });
    const { WebExchange } = await import('../../../shared/frontends/fetch/web-exchange.ts');
    const deadline = new AbortController();
    const exchange = Object.assign(new WebExchange(post({ stream: true })), { deadline: deadline.signal });
    app.serve(exchange);
    const { sink, options } = await pipeline.call(0);
    sink.text(0, 'a', 1);
    deadline.abort();
    expect(options.signal.aborted).toBe(true);
    expect(await (await exchange.response).text()).toContain('"code":"deadline_exceeded"');
  });
});

it('has defaults that agree with the contract', () => {
  expect(defaultHttpSettings).toMatchObject({ peekMs: 2000, overloadStatus: 503, bodyLimitBytes: 192 * 1024 * 1024 });
});
