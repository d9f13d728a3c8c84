import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { createFileSink, createStreamSink, QueuedRecorder, type RecordSink } from '../../../shared/telemetry/index.ts';
import type { RequestEnd } from '../../../shared/telemetry/records/request-records.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

function end(requestId: string, fields: Partial<RequestEnd> = {}): RequestEnd {
  return {
    requestId,
    clientRequestId: undefined,
    model: 'm',
    endpoint: 'chat_completions',
    status: 200,
    errorType: undefined,
    receivedMs: 1_000_000,
    totalMs: 657,
    ttftMs: 57,
    inputTokens: 5,
    outputTokens: 21,
    cachedTokens: undefined,
    agentContext: undefined,
    ...fields,
  };
}

/** A sink whose writes end when the test says so. */
class HeldSink implements RecordSink {
  readonly name = 'held';
  readonly written: string[][] = [];
  readonly #ends: ((error?: Error) => void)[] = [];

  write(records: readonly string[]): Promise<void> {
    this.written.push(records.map((record) => JSON.parse(record).request.request_id));
    return new Promise((resolve, reject) => this.#ends.push((error) => (error ? reject(error) : resolve())));
  }

  /** Ends the oldest write that is under way, and lets what waits for it run. */
  async finish(error?: Error): Promise<void> {
    this.#ends.shift()?.(error);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function recorderOver(sink: RecordSink, capacity = 4) {
  const clock = new VirtualClock();
  const dropped: [number, string][] = [];
  const failures: string[] = [];
  const recorder = new QueuedRecorder({
    sinks: [sink],
    clock,
    capacity,
    onDropped: (count, reason) => void dropped.push([count, reason]),
    onFailure: (name) => void failures.push(name),
  });
  return { recorder, clock, dropped, failures };
}

describe('request records', () => {
  it('are written together, within a second', async () => {
    const sink = new HeldSink();
    const { recorder, clock } = recorderOver(sink, 100);
    recorder.requestEnded(end('a'));
    recorder.requestEnded(end('b'));
    await clock.advance(999);
    expect(sink.written).toEqual([]);
    await clock.advance(1);
    expect(sink.written).toEqual([['a', 'b']]);
  });

  it('wait while a batch is written, and are dropped where too many do', async () => {
    const sink = new HeldSink();
    const { recorder, dropped } = recorderOver(sink, 4);
    for (const id of ['a', 'b']) recorder.requestEnded(end(id)); // half of what may wait: begins to write
    for (const id of ['c', 'd', 'e', 'f', 'g']) recorder.requestEnded(end(id));
    expect(sink.written).toEqual([['a', 'b']]);
    expect(dropped).toEqual([[1, 'queue_full']]);
    await sink.finish();
    expect(sink.written).toEqual([
      ['a', 'b'],
      ['c', 'd', 'e', 'f'],
    ]);
  });

  it('are counted when a sink fails, which later ones survive', async () => {
    const sink = new HeldSink();
    const { recorder, dropped, failures } = recorderOver(sink, 4);
    for (const id of ['a', 'b', 'c']) recorder.requestEnded(end(id));
    await sink.finish(new Error('disk full'));
    expect({ dropped, failures }).toEqual({ dropped: [[2, 'sink_failed']], failures: ['held'] });
    expect(sink.written.at(-1)).toEqual(['c']);
  });

  it('are all written before a recorder is closed', async () => {
    const sink = new HeldSink();
    const { recorder } = recorderOver(sink, 100);
    recorder.requestEnded(end('a'));
    let isClosed = false;
    const closing = recorder.close().then(() => {
      isClosed = true;
    });
    recorder.requestEnded(end('b'));
    await sink.finish();
    expect({ isClosed, written: sink.written }).toEqual({ isClosed: false, written: [['a'], ['b']] });
    await sink.finish();
    await closing;
  });

  it('say what happened, without what is not known', async () => {
    const lines = new PassThrough();
    const sink = createStreamSink('stderr', lines);
    const { recorder } = recorderOver(sink, 100);
    const agentContext = { session_id: 's', input_trigger: 'user_message' };
    recorder.requestEnded(end('a', { clientRequestId: 'mine', cachedTokens: 3, agentContext }));
    recorder.requestEnded(
      end('b', { status: 499, errorType: 'cancelled', ttftMs: undefined, outputTokens: undefined }),
    );
    await recorder.close();
    const [first, second] = String(lines.read())
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(first).toEqual({
      schema: 'dynamo.request.trace.v1',
      event_type: 'request_end',
      event_time_unix_ms: 1_000_657,
      event_source: 'dynamo',
      agent_context: agentContext,
      request: {
        request_id: 'a',
        x_request_id: 'mine',
        model: 'm',
        endpoint: 'chat_completions',
        status: 200,
        input_tokens: 5,
        output_tokens: 21,
        cached_tokens: 3,
        request_received_ms: 1_000_000,
        ttft_ms: 57,
        total_time_ms: 657,
        avg_itl_ms: 30,
      },
    });
    expect(second.request).toEqual({
      request_id: 'b',
      model: 'm',
      endpoint: 'chat_completions',
      status: 499,
      error_type: 'cancelled',
      input_tokens: 5,
      request_received_ms: 1_000_000,
      total_time_ms: 657,
    });
  });
});

describe('a file of records', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stator-records-'));
  });
  afterEach(() => rm(folder, { recursive: true }));
  const eventsOf = (text: string) =>
    text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).event);

  it('grows by a line a record, each with its time since the start', async () => {
    const path = join(folder, 'deep', 'records.jsonl');
    const clock = new VirtualClock();
    const sink = createFileSink({ path, format: 'jsonl', clock });
    await sink.write(['{"n":1}', '{"n":2}']);
    await clock.advance(1500);
    await sink.write(['{"n":3}']);
    expect(await readFile(path, 'utf8')).toBe(
      '{"timestamp":0,"event":{"n":1}}\n{"timestamp":0,"event":{"n":2}}\n{"timestamp":1500,"event":{"n":3}}\n',
    );
  });

  it('is a row of compressed segments that never write over one another', async () => {
    const path = join(folder, 'records');
    const options = { path, format: 'jsonl_gz', clock: systemClock, rollBytes: 60 } as const;
    const [first, second] = [createFileSink(options), createFileSink(options)];
    await first.write(['{"n":1}']);
    await second.write(['{"n":2}']);
    await first.write(['{"n":3}']); // into the first segment, which is full then
    await first.write(['{"n":4}']);
    const names = (await readdir(folder)).sort();
    expect(names).toEqual(['records.000000.jsonl.gz', 'records.000001.jsonl.gz', 'records.000002.jsonl.gz']);
    const contents = await Promise.all(
      names.map(async (name) => eventsOf(gunzipSync(await readFile(join(folder, name))).toString())),
    );
    expect(contents).toEqual([[{ n: 1 }, { n: 3 }], [{ n: 2 }], [{ n: 4 }]]);
  });
});
