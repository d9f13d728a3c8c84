import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { Unpackr } from 'msgpackr';
import { describe, expect, it } from 'vitest';
import { detailOf, type ServeError } from '../../../../shared/errors/index.ts';
import { DynamoAnswerReader, type EngineOutput, type OutputSink } from '../../../../shared/protocol/index.ts';

class Recorded implements OutputSink {
  readonly calls: unknown[] = [];

  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    this.calls.push(['tokens', choice, Array.from(ids).slice(start, start + count)]);
  }

  output(output: EngineOutput): void {
    this.calls.push(['output', output]);
  }

  end(): void {
    this.calls.push(['end']);
  }

  fail(error: ServeError): void {
    this.calls.push(['fail', error.code, error.worker, detailOf(error)]);
  }
}

function read(...items: unknown[]): unknown[] {
  const sink = new Recorded();
  const reader = new DynamoAnswerReader(sink);
  for (const item of items) reader.item(item);
  return sink.calls;
}

/** Returns the items of an answer that a mock worker of Dynamo 1.6.1 delivered, each in a message of two parts. */
function recorded(): unknown[] {
  const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true });
  const lines = readFileSync('test/fixtures/dynamo/worker-answer-1.6.1.hex', 'utf8').trim().split('\n');
  return lines.flatMap((line) => {
    const bytes = Buffer.from(line, 'hex');
    const body = bytes.subarray(24 + Number(bytes.readBigUInt64BE(0)));
    if (body.length === 0) return []; // the handshake, the prologue, or the end
    const { data } = unpackr.unpack(body) as { readonly data?: unknown };
    return data === undefined ? [] : [data];
  });
}

/** An output with all its fields, as a worker in Rust writes them. */
const EMPTY = {
  token_ids: [],
  tokens: null,
  text: null,
  output_type: 'text',
  cum_log_probs: null,
  log_probs: null,
  top_logprobs: null,
  finish_reason: null,
  index: null,
};

describe('the answer of a worker of Dynamo', () => {
  it('is tokens as long as an item says nothing else', () => {
    expect(read({ data: { ...EMPTY, token_ids: [7, 8] } }, { data: { token_ids: [9], index: 1 } })).toEqual([
      ['tokens', 0, [7, 8]],
      ['tokens', 1, [9]],
    ]);
  });

  it('is tokens also if an item has as many as one output may', () => {
    const ids = Array.from({ length: 4097 }, (_, at) => at);
    expect(read({ data: { token_ids: ids.slice(0, 256) } })).toEqual([['tokens', 0, ids.slice(0, 256)]]);
    expect(read({ data: { token_ids: ids.slice(0, 4096) } })).toEqual([['tokens', 0, ids.slice(0, 4096)]]);
    expect(read({ data: { token_ids: ids } }).map((call) => (call as readonly unknown[])[0])).toEqual([
      'output',
      'output',
    ]);
  });

  it('keeps what else an item says beside its tokens', () => {
    const usage = {
      prompt_tokens: 3,
      completion_tokens: 1,
      total_tokens: 4,
      prompt_tokens_details: { cached_tokens: 2 },
    };
    const last = { ...EMPTY, token_ids: [7], finish_reason: 'eos', stop_reason: 151_645, completion_usage: usage };
    const told = {
      ...EMPTY,
      token_ids: [7],
      log_probs: [-0.5],
      top_logprobs: [[{ rank: 1, token_id: 7, logprob: -0.5 }]],
    };
    const prefill = { token_ids: [7], disaggregated_params: { kv_transfer_params: { room: 2n ** 63n } } };
    expect(read({ data: told }, { data: prefill }, { data: last })).toEqual([
      ['output', told],
      ['output', prefill],
      ['output', last],
    ]);
  });

  it('reads as a mock worker of release 1.6.1 wrote it', () => {
    const usage = (completion_tokens: number) => ({
      prompt_tokens: 3,
      completion_tokens,
      total_tokens: 3 + completion_tokens,
      prompt_tokens_details: { audio_tokens: null, cached_tokens: 0 },
    });
    expect(read(...recorded())).toEqual([
      ['output', expect.objectContaining({ token_ids: [1537], completion_usage: usage(1) })],
      ['tokens', 0, [1820]],
      ['tokens', 0, [1781]],
      ['output', expect.objectContaining({ token_ids: [], finish_reason: 'length', completion_usage: usage(3) })],
    ]);
  });

  it('has nothing of annotations and of items without tokens', () => {
    expect(read({ event: 'llm_metrics', comment: ['{}'] }, {}, { data: { ...EMPTY } })).toEqual([]);
  });

  it('is a body if the worker answers in the form of the client', () => {
    const chunk = { object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: 'hi' } }] };
    const tensors = { model: 'm', tensors: [] };
    expect(read({ data: chunk }, { data: tensors })).toEqual([
      ['output', { body: chunk }],
      ['output', { body: tensors }],
    ]);
  });

  it('has no bigints where clients read it as JSON, and exact ones in tensors and handles', () => {
    const big = 2n ** 60n;
    const [engine, chunk, tensor, handle] = read(
      { data: { token_ids: [], engine_data: { spans: [{ start_ns: big, bytes: 5 }] } } },
      { data: { object: 'chat.completion.chunk', choices: [], created: big } },
      { data: { tensors: [{ values: [big] }] } },
      { data: { token_ids: [], disaggregated_params: { room: big } } },
    );
    expect(engine).toEqual([
      'output',
      { token_ids: [], engine_data: { spans: [{ start_ns: Number(big), bytes: 5 }] } },
    ]);
    expect(chunk).toEqual(['output', { body: { object: 'chat.completion.chunk', choices: [], created: 2 ** 60 } }]);
    expect(tensor).toEqual(['output', { body: { tensors: [{ values: [big] }] } }]);
    expect(handle).toEqual(['output', { token_ids: [], disaggregated_params: { room: big } }]);
  });

  it('has vectors of numbers as the bytes that Stator passes on', () => {
    const vector = Buffer.alloc(8);
    vector.writeFloatLE(0.5, 0);
    vector.writeFloatLE(-2, 4);
    expect(read({ data: { embeddings: [[0.5, -2], 'AAAA'], prompt_tokens: 2, total_tokens: 2 } })).toEqual([
      ['output', { body: { embeddings: [vector.toString('base64'), 'AAAA'], prompt_tokens: 2, total_tokens: 2 } }],
    ]);
  });

  it('comes in pieces if an item is long', () => {
    const ids = Array.from({ length: 10_000 }, (_, at) => at);
    const pieces = read({ data: { token_ids: ids, finish_reason: 'length' } });
    const outputs = pieces.map((call) => (call as [string, EngineOutput])[1]);
    expect(outputs.length).toBeGreaterThan(1);
    expect(outputs.flatMap((output) => output.token_ids ?? [])).toEqual(ids);
    expect(outputs.map((output) => output.finish_reason).filter(Boolean)).toEqual(['length']);
  });

  it.each([
    ['text', 'an item that is not an object'],
    [{ data: [1] }, 'an output that is not an object'],
    [{ data: { token_ids: [-1] } }, 'token_ids'],
    [{ data: { token_ids: 'secret' } }, 'token_ids'],
    [{ data: { token_ids: { length: 9000 } } }, 'token_ids'],
    [{ data: { token_ids: [1], index: 'x' } }, 'index'],
    [{ data: { token_ids: [1], completion_usage: 4 } }, 'completion_usage'],
    [{ data: { token_ids: [1], top_logprobs: [7] } }, 'top_logprobs'],
  ])('fails at %j, and has nothing after it', (item, named) => {
    expect(read(item, { data: { token_ids: [1] } })).toEqual([
      ['fail', 'bad_worker_response', 'BackendProtocol', expect.stringContaining(named)],
    ]);
    expect(String(read(item))).not.toContain('secret'); // a part of an answer never reaches a log
  });

  it('fails with the error of the worker after the tokens before it', () => {
    const error = { error_type: { Backend: 'EngineShutdown' }, message: 'engine died' };
    expect(read({ data: { token_ids: [1] } }, { event: 'error', comment: ['engine died'], error })).toEqual([
      ['tokens', 0, [1]],
      ['fail', 'worker_lost', 'EngineShutdown', 'Service temporarily unavailable: engine died'],
    ]);
  });

  it('never throws, whatever an item holds', () => {
    const names = [
      'token_ids',
      'text',
      'tokens',
      'log_probs',
      'finish_reason',
      'index',
      'embeddings',
      'choices',
      'data',
    ];
    const value = fc.oneof(fc.anything(), fc.array(fc.integer()), fc.constant(null));
    const data = fc.dictionary(fc.constantFrom(...names), value);
    const item = fc.oneof(
      fc.anything(),
      fc.record({ data, event: fc.constantFrom('error', 'x'), error: fc.anything() }),
    );
    fc.assert(
      fc.property(fc.array(item), (items) => {
        const calls = read(...items);
        const failed = calls.findIndex((call) => (call as unknown[])[0] === 'fail');
        return failed === -1 || failed === calls.length - 1;
      }),
      { numRuns: 500 },
    );
  });
});
