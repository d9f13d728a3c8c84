import { describe, expect, it } from 'vitest';
import { type ServeError, workerError } from '../../../shared/errors/index.ts';
import { createLogger, type LoggerOptions } from '../../../shared/telemetry/log/logger.ts';
import type { RequestEnd } from '../../../shared/telemetry/records/request-records.ts';
import { tell } from '../../support/generation-events.ts';
import { createTestApp, type TestAppOptions } from '../../support/http-app.ts';
import { playFailure, playTexts, type ScriptedCall, ScriptedPipeline } from '../../support/scripted-pipeline.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';
const CALLER_SPAN_ID = 'b7ad6b7169203331';
const CALLER = `00-${TRACE_ID}-${CALLER_SPAN_ID}-01`;

/** One chat, what the worker was passed on, and the lines of the log. */
async function chat(
  headers: Readonly<Record<string, string>>,
  play: (call: ScriptedCall) => void = ({ sink }) => playTexts(sink, ['Hi']),
  body: string = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] }),
  options: TestAppOptions = {},
) {
  const pipeline = new ScriptedPipeline().onGenerate(play);
  const { app, lines } = createTestApp({ pipeline, ...options });
  const response = await app.fetch(
    new Request('http://localhost/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
    }),
  );
  const text = await response.text();
  const completed = lines.filter(({ message }) => message === 'request completed');
  if (options.logger === undefined) expect(completed).toHaveLength(1);
  return { text, status: response.status, line: completed[0], trace: pipeline.calls[0]?.request.trace };
}

describe('the trace of a request', () => {
  it('is the caller’s, with a span of our own that worker and log line name', async () => {
    const { trace, line } = await chat({ traceparent: CALLER, tracestate: 'vendor=1', 'x-request-id': 'mine' });
    const spanId = line?.fields.span_id;
    expect(spanId).toMatch(/^[0-9a-f]{16}$/);
    expect(spanId).not.toBe(CALLER_SPAN_ID);
    expect(trace).toEqual({
      traceparent: `00-${TRACE_ID}-${spanId}-01`,
      tracestate: 'vendor=1',
      requestId: 'mine',
    });
    expect(line?.fields).toMatchObject({ trace_id: TRACE_ID, x_request_id: 'mine', request_id: expect.any(String) });
  });

  it.each([
    ['absent', undefined],
    ['not legal', '00-zz'],
  ])('is a new one where the caller’s is %s', async (_name, traceparent) => {
    const { trace, line } = await chat({
      tracestate: 'vendor=1',
      ...(traceparent === undefined ? {} : { traceparent }),
    });
    const { trace_id: traceId, span_id: spanId } = line?.fields ?? {};
    expect(trace).toEqual({ traceparent: `00-${traceId}-${spanId}-01` });
    expect(traceId).toMatch(/^[0-9a-f]{32}$/);
  });

  it('is named also by the line of a request that was never understood', async () => {
    const { line, status } = await chat({ traceparent: CALLER }, undefined, '{');
    expect(status).toBe(400);
    expect(line?.fields).toMatchObject({ trace_id: TRACE_ID, span_id: expect.stringMatching(/^[0-9a-f]{16}$/) });
    expect(line?.fields.span_id).not.toBe(CALLER_SPAN_ID);
  });
});

describe('the line of a request', () => {
  const written = async (options: LoggerOptions) => {
    const lines: string[] = [];
    const destination = { write: (line: string) => void lines.push(line) };
    const logger = createLogger({ destination, clock: new VirtualClock(), ...options }).for('http');
    const play = ({ sink, options: { meter } }: ScriptedCall): void => {
      const worker = { workerId: 'abc', workerType: 'decode' } as const;
      meter.servedBy(worker, worker);
      meter.moved();
      sink.text(0, 'Hi', 1);
      tell(sink, { kind: 'finish', choice: 0, text: '', tokenIds: [], reason: 'stop' });
      sink.end({ promptTokens: 3, completionTokens: 2, cachedTokens: 1 }, true);
    };
    await chat({ 'x-request-id': 'mine', traceparent: CALLER }, play, undefined, { logger });
    return lines.join('');
  };

  it('is short for people: model, worker, tokens, moves and times', async () => {
    expect(await written({})).toMatch(
      /INFO http: request completed model=m status=200 worker=abc prompt=3 cached=1 output=2 moved=1 ms=\d+\n$/,
    );
  });

  it.each([
    ['as JSON', { jsonl: true }, [/"request_id":"/, /"x_request_id":"mine"/, /"worker_id":"abc"/, /"cached_tokens":1/]],
    ['at debug', { filter: 'debug' }, [/ request_id=/, / x_request_id=mine/, / worker_id=abc/, / cached_tokens=1/]],
  ])('has all ids %s', async (_name, options, patterns) => {
    const text = await written(options);
    for (const pattern of [...patterns, /trace_id/, /endpoint/, /moves/]) expect(text).toMatch(pattern);
  });
});

describe('the line of a request that failed', () => {
  const failing = (error: ServeError) => (call: ScriptedCall) => playFailure(call.sink, error);

  it('says what the worker said, which the client is not told', async () => {
    const { text, line } = await chat({}, failing(workerError('Internal', 'CUDA out of memory on 10.0.0.3')));
    expect(text).not.toContain('CUDA');
    expect(line?.fields).toMatchObject({ error_type: 'internal', status: 500 });
    expect(line?.fields.error_detail).toMatch(/: CUDA out of memory on 10\.0\.0\.3$/);
  });

  it('shows where a mistake of ours was made', async () => {
    const mistake = new TypeError('x is not a function');
    const { text, line } = await chat({}, () => {
      throw mistake;
    });
    expect(text).not.toContain('x is not');
    expect(line?.fields).toMatchObject({
      error_detail: 'Internal server error: x is not a function',
      error_cause: mistake,
    });
  });

  it('says no more than the client reads where that is all there is', async () => {
    const { line } = await chat({}, undefined, JSON.stringify({ model: 'm', messages: [] }));
    expect(line?.fields).toMatchObject({ status: 400, error_type: 'validation' });
    expect(line?.fields.error_cause).toBeUndefined();
  });
});

describe('the record of a request', () => {
  const recorded = async (play: (call: ScriptedCall) => void, body?: string, headers = {}) => {
    const ends: RequestEnd[] = [];
    await chat(headers, play, body, { records: { requestEnded: (end) => void ends.push(end) } });
    return ends;
  };

  it('says who asked for what, and what it took', async () => {
    const headers = { 'x-dynamo-session-id': 's', 'x-request-id': 'mine' };
    const ends = await recorded(({ sink }) => playTexts(sink, ['Hi', '!']), undefined, headers);
    expect(ends).toHaveLength(1);
    expect(ends[0]).toMatchObject({
      clientRequestId: 'mine',
      model: 'm',
      endpoint: 'chat_completions',
      status: 200,
      errorType: undefined,
      inputTokens: 3,
      outputTokens: 3,
      agentContext: { session_id: 's', input_trigger: 'user_message' },
    });
    expect(ends[0]?.requestId).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('is there of failures, too, but not of what was never understood', async () => {
    const [end] = await recorded(({ sink }) => playFailure(sink, workerError('RateLimited')));
    expect(end).toMatchObject({ status: 429, errorType: 'overload', inputTokens: undefined });
    expect(await recorded(() => {}, '{')).toEqual([]);
  });
});
