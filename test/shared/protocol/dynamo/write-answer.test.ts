import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromWire, isMigratable, toWire, type WorkerErrorKind, workerError } from '../../../../shared/errors/index.ts';
import {
  DynamoAnswerReader,
  type EngineOutput,
  type OutputSink,
  readTypedError,
  toDynamoOutput,
  toTypedError,
} from '../../../../shared/protocol/index.ts';

describe('an output for a frontend of Dynamo', () => {
  it('always has token ids and the total of its usage', () => {
    expect(
      toDynamoOutput({ finish_reason: 'stop', completion_usage: { prompt_tokens: 2, completion_tokens: 3 } }),
    ).toEqual({
      token_ids: [],
      finish_reason: 'stop',
      completion_usage: { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5 },
    });
  });

  it('is the body alone of a worker that answers in the form of the client', () => {
    const body = { object: 'chat.completion.chunk', choices: [] };
    expect(toDynamoOutput({ body, finish_reason: 'stop', index: 0 })).toBe(body);
  });

  it.each([
    ['eos', 'eos'],
    ['abort', 'cancelled'],
    [{ error: 'x' }, { error: 'x' }],
    ['tool_calls', { error: 'the engine ended with tool_calls' }],
  ])('ends with a reason that the frontend knows: %j', (reason, told) => {
    expect(toDynamoOutput({ finish_reason: reason as 'eos' })).toMatchObject({ finish_reason: told });
  });

  it('reads as it was written', () => {
    const output: fc.Arbitrary<EngineOutput> = fc.record(
      {
        token_ids: fc.array(fc.nat(200_000), { minLength: 1, maxLength: 5 }),
        index: fc.nat(3),
        log_probs: fc.array(fc.constant(-0.5), { maxLength: 5 }),
        finish_reason: fc.constantFrom('eos', 'stop', 'length', 'cancelled'),
        disaggregated_params: fc.record({ room: fc.bigInt() }),
      },
      { requiredKeys: ['token_ids', 'index'] },
    );
    fc.assert(
      fc.property(output, (given) => {
        const seen: unknown[] = [];
        const sink: OutputSink = {
          tokens: (index, ids, start, count) =>
            seen.push({ token_ids: Array.from(ids).slice(start, start + count), index }),
          output: (read) => seen.push(read),
          end() {},
          fail: (error) => seen.push(error),
        };
        new DynamoAnswerReader(sink).item({ data: toDynamoOutput(given) });
        expect(seen).toEqual([given]);
      }),
      { numRuns: 200 },
    );
  });
});

describe('a failure for a frontend of Dynamo', () => {
  const kinds: readonly WorkerErrorKind[] = [
    'InvalidArgument',
    'NotFound',
    'PayloadTooLarge',
    'RateLimited',
    'Cancelled',
    'NotImplemented',
    'WorkerOverloaded',
    'WorkerUnavailable',
    'Disconnected',
    'EngineShutdown',
    'StreamIncomplete',
    'ResponseTimeout',
    'BackendProtocol',
  ];

  it.each(kinds)('of class %s keeps its class, and whether the request may move', (kind) => {
    const error = workerError(kind, 'why');
    const read = readTypedError({ typed_error: toTypedError(toWire(error)) });
    expect([read.worker, isMigratable(read)]).toEqual([kind, isMigratable(error)]);
  });

  it('has only names that release 1.5 knows where that release reads them', () => {
    const known = new Set(['Unknown', 'InvalidArgument', 'CannotConnect', 'Disconnected', 'ConnectionTimeout']);
    for (const name of ['ResponseTimeout', 'Cancelled', 'ResourceExhausted', 'Unavailable', 'WorkerUnavailable']) {
      known.add(name);
    }
    for (const kind of kinds) {
      const { error_type } = toTypedError(toWire(workerError(kind, 'why')));
      expect(typeof error_type === 'object' || known.has(String(error_type)), kind).toBe(true);
    }
  });

  it('has a public text only if it is meant for the client', () => {
    expect(toTypedError(toWire(workerError('InvalidArgument', 'too long')))).toMatchObject({
      public: { type: 'message', message: 'too long' },
    });
    expect(toTypedError(toWire(workerError('Internal', 'secret')))).not.toHaveProperty('public');
    expect(fromWire({ kind: 'Internal', message: 'secret' }).message).not.toContain('secret');
  });
});
