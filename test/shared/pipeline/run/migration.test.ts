import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { continuationOf, GeneratedTokens } from '../../../../shared/pipeline/run/migration-budget.ts';
import { type EngineRequest, isMovable } from '../../../../shared/protocol/index.ts';

function request(more: Partial<EngineRequest> = {}): EngineRequest {
  return {
    id: 'r',
    model: 'm',
    input: { kind: 'tokens', tokenIds: Uint32Array.of(1, 2, 3) },
    stop: { max_tokens: 10, min_tokens: 6 },
    sampling: {},
    output: {},
    eosTokenIds: [],
    routing: {},
    annotations: [],
    ...more,
  };
}

function generated(...ids: number[]): GeneratedTokens {
  const all = new GeneratedTokens();
  all.add(ids, 0, ids.length);
  return all;
}

describe('continuationOf', () => {
  it('goes on after the tokens so far with reduced budgets', () => {
    const next = continuationOf(request(), generated(11, 12, 13, 14));
    expect(next?.input).toEqual({ kind: 'tokens', tokenIds: Uint32Array.of(1, 2, 3, 11, 12, 13, 14) });
    expect(next?.stop).toEqual({ max_tokens: 6, min_tokens: 2 });
  });

  it('is over when the budget is spent', () => {
    expect(continuationOf(request({ stop: { max_tokens: 2 } }), generated(11, 12))).toBeUndefined();
  });

  it('changes nothing before the first token', () => {
    const first = request();
    expect(continuationOf(first, generated())).toBe(first);
    expect(continuationOf(first, undefined)).toBe(first);
  });

  it('never lets min_tokens fall below zero', () => {
    expect(continuationOf(request({ stop: { min_tokens: 1 } }), generated(1, 2, 3))?.stop.min_tokens).toBe(0);
  });

  it('keeps every token in order, however they came', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.nat({ max: 2 ** 32 - 1 }), { maxLength: 90 }), { maxLength: 6 }), (steps) => {
        const all = new GeneratedTokens();
        for (const step of steps) all.add([0, ...step, 0], 1, step.length);
        expect([...all.after(Uint32Array.of(7))]).toEqual([7, ...steps.flat()]);
      }),
    );
  });
});

describe('isMovable', () => {
  it('is true for one unguided choice from tokens', () => {
    expect(isMovable(request())).toBe(true);
  });

  it('is false for several choices, guided output, pins, embeddings and text', () => {
    const fixed: Partial<EngineRequest>[] = [
      { sampling: { n: 2 } },
      { sampling: { guided_decoding: { regex: 'a' } } },
      { routing: { backend_instance_id: 'a' } },
      { routing: { decode_worker_id: 'a' } },
      { input: { kind: 'tokens', tokenIds: new Uint32Array(0), promptEmbeds: 'x' } },
      { input: { kind: 'text', endpoint: 'chat_completions', body: {} } },
    ];
    for (const more of fixed) expect(isMovable(request(more))).toBe(false);
  });
});
