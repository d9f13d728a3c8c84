import { describe, expect, it } from 'vitest';
import { ServeError, workerError } from '../../../../shared/errors/index.ts';
import type { JsonObject } from '../../../support/dynamo-http/records.ts';
import { finish, reasoning, tell, toolArguments, toolCall } from '../../../support/generation-events.ts';
import { createTestApp } from '../../../support/http-app.ts';
import { ScriptedPipeline, servedModel } from '../../../support/scripted-pipeline.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { ANTHROPIC, answer, dataOf, frames, namesOf, post, USAGE } from './messages-bed.ts';

const event = (type: string, rest: string) => `event: ${type}\ndata: {"type":"${type}"${rest}}\n\n`;

describe('a Messages stream', () => {
  it('tells thoughts, text and tool uses block by block, byte for byte', async () => {
    const { text, response } = await answer({ stream: true }, ({ sink, options }) => {
      options.meter.promptTokens(30);
      tell(sink, reasoning('hm'));
      tell(sink, reasoning('m'));
      sink.text(0, 'Hé', 1);
      sink.text(0, 'llo\n"', 1);
      tell(sink, toolCall(0, 'get_time'));
      tell(sink, toolArguments(0, '{"tz":'));
      tell(sink, toolArguments(0, '"UTC"}'));
      tell(sink, toolCall(1, 'no_input'));
      tell(sink, finish({ reason: 'tool_calls' }));
      sink.end(USAGE, true);
    });
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    expect(response.headers.get('request-id')).toMatch(/^req_[0-9a-f]{32}$/);
    const [, id] = /"id":"(msg_[0-9a-f]{32})"/.exec(text) ?? [];
    const [first, second] = text.match(/toolu_[0-9a-f]{32}/g) ?? [];
    const usage = (input: number, output: number, read: number) =>
      `"usage":{"input_tokens":${input},"output_tokens":${output},"cache_creation_input_tokens":0,"cache_read_input_tokens":${read}}`;
    const delta = (index: number, fields: string) =>
      event('content_block_delta', `,"index":${index},"delta":{"type":${fields}}`);
    const start = (index: number, block: string) =>
      event('content_block_start', `,"index":${index},"content_block":{"type":${block}}`);
    const stop = (index: number) => event('content_block_stop', `,"index":${index}`);
    expect(text).toBe(
      event(
        'message_start',
        `,"message":{"id":"${id}","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,${usage(30, 0, 0)}}`,
      ) +
        event('ping', '') +
        start(0, '"thinking","thinking":"","signature":""') +
        delta(0, '"thinking_delta","thinking":"hm"') +
        delta(0, '"thinking_delta","thinking":"m"') +
        delta(0, '"signature_delta","signature":"erased"') +
        stop(0) +
        start(1, '"text","text":""') +
        delta(1, '"text_delta","text":"Hé"') +
        delta(1, '"text_delta","text":"llo\\n\\""') +
        stop(1) +
        start(2, `"tool_use","id":"${first}","name":"get_time","input":{}`) +
        delta(2, '"input_json_delta","partial_json":"{\\"tz\\":"') +
        delta(2, '"input_json_delta","partial_json":"\\"UTC\\"}"') +
        stop(2) +
        start(3, `"tool_use","id":"${second}","name":"no_input","input":{}`) +
        stop(3) +
        event('message_delta', `,"delta":{"stop_reason":"tool_use","stop_sequence":null},${usage(20, 5, 10)}`) +
        event('message_stop', ''),
    );
  });

  it('opens a new block for text that comes after a tool use', async () => {
    const seen = await frames({}, ({ sink }) => {
      tell(sink, toolCall(0, 'f'));
      tell(sink, toolArguments(0, '{}'));
      sink.text(0, 'done', 1);
      tell(sink, finish());
      sink.end(USAGE, true);
    });
    expect(seen.flatMap((frame) => dataOf(frame).index ?? [])).toEqual([0, 0, 0, 1, 1, 1]);
  });

  it.each([
    ['length', undefined, 'max_tokens', null],
    ['content_filter', undefined, 'refusal', null],
    ['stop', 'END', 'stop_sequence', 'END'],
    ['stop', 'other', 'end_turn', null],
    ['stop', 7, 'end_turn', null],
    [null, undefined, 'end_turn', null],
  ] as const)('tells the end %s (%s) as %s', async (reason, stopReason, expected, sequence) => {
    const seen = await frames({ stop_sequences: ['END'] }, ({ sink }) => {
      tell(sink, finish({ text: 'x', reason, ...(stopReason === undefined ? {} : { stopReason }) }));
      sink.end(USAGE, true);
    });
    expect(dataOf(seen.at(-2)).delta).toEqual({ stop_reason: expected, stop_sequence: sequence });
  });

  it('has no block when nothing was said', async () => {
    const seen = await frames({}, ({ sink }) => {
      tell(sink, finish());
      sink.end(USAGE, true);
    });
    expect(namesOf(seen)).toEqual(['message_start', 'ping', 'message_delta', 'message_stop']);
  });

  it('shows annotations before the message and hides what has no place in it', async () => {
    const { text } = await answer({ stream: true, nvext: { annotations: ['request_id', 'token_ids'] } }, ({ sink }) => {
      tell(sink, { kind: 'annotation', name: 'token_ids', value: '[1]' });
      tell(sink, { kind: 'worker', prefillWorkerId: '1', decodeWorkerId: '1' });
      tell(sink, { kind: 'engine-data', data: { a: 1 } });
      tell(sink, { kind: 'delta', choice: 0, text: 'x', tokenIds: [4] });
      tell(sink, finish());
      sink.end(USAGE, true);
    });
    expect(text).toMatch(/^event: request_id\n: "[0-9a-f-]+"\n\nevent: token_ids\n: "\[1\]"\n\nevent: message_start\n/);
  });

  it('reads the chunks of a worker that takes bodies untouched, and estimates the prompt tokens until the worker counts them', async () => {
    const pipeline = new ScriptedPipeline([servedModel('m')]).onGenerate(({ sink, options }) => {
      options.meter.promptEstimate(10);
      const chunk = (delta: object, finish_reason: string | null = null) =>
        tell(sink, { kind: 'body', body: { choices: [{ index: 0, delta, finish_reason }] } });
      chunk({ role: 'assistant', content: 'He' });
      chunk({ tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: '{"a"' } }] });
      chunk({ tool_calls: [{ index: 0, function: { arguments: ':1}' } }] }, 'tool_calls');
      sink.end({ promptTokens: 9, completionTokens: 2 }, true);
    });
    const seen = await frames({ system: 'x'.repeat(24) }, () => {}, { pipeline });
    expect(namesOf(seen).slice(2)).toEqual([
      'content_block_start',
      'text_delta',
      'content_block_stop',
      'content_block_start',
      'input_json_delta',
      'input_json_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    const started = (dataOf(seen[0]).message as JsonObject).usage as JsonObject;
    expect(started.input_tokens).toBe(10);
    expect(dataOf(seen.at(-2)).usage).toMatchObject({ input_tokens: 9, output_tokens: 2 });
  });

  it('learns the stop sequence from a worker that takes bodies untouched', async () => {
    const seen = await frames({ stop_sequences: ['END'] }, ({ sink }) => {
      const choice = { index: 0, delta: { content: 'x' }, finish_reason: 'stop', stop_reason: 'END' };
      tell(sink, { kind: 'body', body: { choices: [choice] } });
      sink.end(USAGE, true);
    });
    expect(dataOf(seen.at(-2)).delta).toEqual({ stop_reason: 'stop_sequence', stop_sequence: 'END' });
  });
});

describe('failures of a Messages stream', () => {
  it('have their HTTP status before the first event', async () => {
    const { response, text } = await answer({ stream: true }, ({ sink }) =>
      sink.fail(new ServeError('server_overloaded', 'Service temporarily overloaded')),
    );
    expect(response.status).toBe(529);
    expect(response.headers.get('retry-after')).toBe('1');
    expect(JSON.parse(text)).toEqual({
      type: 'error',
      error: { type: 'overloaded_error', message: 'Service temporarily overloaded' },
      request_id: response.headers.get('request-id'),
    });
  });

  it('are an error event after it, and nothing follows', async () => {
    const { text, response, lines } = await answer({ stream: true }, ({ sink }) => {
      sink.text(0, 'x', 1);
      sink.fail(new ServeError('service_unavailable', 'Service temporarily unavailable'));
      sink.text(0, 'late', 1);
      sink.end(USAGE, true);
    });
    expect(response.status).toBe(200);
    const requestId = response.headers.get('request-id');
    expect(text.slice(text.indexOf('event: error'))).toBe(
      `event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Service temporarily unavailable"},"request_id":"${requestId}"}\n\n`,
    );
    expect(text).not.toContain('message_stop');
    expect(lines.at(-1)?.fields).toMatchObject({
      endpoint: 'anthropic_messages',
      status: 200,
      error_type: 'unavailable',
    });
  });

  it('include a worker that goes back to a call which has ended, and the frontend stops that worker', async () => {
    let isStopped = false;
    const seen = await frames({}, ({ sink, options }) => {
      tell(sink, toolCall(0, 'f'));
      tell(sink, toolCall(1, 'g'));
      tell(sink, toolArguments(0, '{}'));
      isStopped = options.signal.aborted;
    });
    expect(isStopped).toBe(true);
    expect(namesOf(seen).at(-1)).toBe('error');
    expect((dataOf(seen.at(-1)).error as JsonObject).message).toBe(workerError('BackendProtocol', '').message);
  });
});

describe('a Messages stream whose worker is silent', () => {
  it('begins with a comment when the status can wait no longer, and pings once the message has begun', async () => {
    const clock = new VirtualClock();
    const pipeline = new ScriptedPipeline();
    const { app } = createTestApp({ pipeline, clock, settings: { ...ANTHROPIC, peekMs: 2000, keepAliveMs: 1000 } });
    const answered = app.fetch(post({ stream: true }));
    const { sink } = await pipeline.call(0);
    await clock.advance(2000);
    const response = await answered;
    await clock.advance(1000);
    sink.text(0, 'x', 1);
    await clock.advance(2000);
    tell(sink, finish());
    sink.end(USAGE, true);
    const text = await response.text();
    expect(text).toMatch(/^:\n\n:\n\nevent: message_start\n/);
    expect(text.match(/event: ping\ndata: \{"type":"ping"\}\n\n/g)).toHaveLength(2);
    expect(text.lastIndexOf('event: ping')).toBeGreaterThan(text.indexOf('text_delta'));
  });

  it('ends the work when its client leaves', async () => {
    const pipeline = new ScriptedPipeline();
    const { app, lines } = createTestApp({ pipeline, settings: ANTHROPIC });
    const answered = app.fetch(post({ stream: true }));
    const { sink, options } = await pipeline.call(0);
    sink.text(0, 'x', 1);
    const response = await answered;
    await response.body?.cancel();
    expect(options.signal.aborted).toBe(true);
    expect(lines.at(-1)?.fields).toMatchObject({ status: 499, error_type: 'cancelled' });
  });
});
