import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cutLongOutput, type EngineOutput, readEngineOutput } from '../../../../shared/protocol/index.ts';

const TOP = { rank: 1, token_id: 5, token: 'a', logprob: -0.5, bytes: [97] };

describe('readEngineOutput', () => {
  it.each<[string, Record<string, unknown>]>([
    ['nothing', {}],
    [
      'nulls',
      { text: null, tokens: null, finish_reason: null, index: null, completion_usage: null, engine_data: null },
    ],
    [
      'tokens with all that belongs to them',
      { token_ids: [5], tokens: ['a', null], log_probs: [-0.5], top_logprobs: [[TOP]], cum_log_probs: -0.5 },
    ],
    ['an impossible token', { log_probs: [Number.NEGATIVE_INFINITY] }],
    ['an end', { finish_reason: 'stop', stop_reason: 7, index: 3 }],
    ['a failure', { finish_reason: { error: 'out of memory' } }],
    [
      'usage',
      { completion_usage: { prompt_tokens: 5, completion_tokens: 0, prompt_tokens_details: { cached_tokens: null } } },
    ],
    ['fields of another release', { surprise: { at: [1] }, body: 'anything' }],
  ])('takes %s as it is', (_, output) => {
    expect(readEngineOutput(output)).toEqual(output);
  });

  it('takes an absent list of ids as an empty one', () => {
    expect(readEngineOutput({ token_ids: null })).toEqual({ token_ids: [] });
  });

  it.each<[string, unknown]>([
    ['token_ids', { length: 1e9 }],
    ['token_ids', [1.5]],
    ['token_ids', [-1]],
    ['token_ids', [2 ** 32]],
    ['token_ids', ['5']],
    ['token_ids', Array(4097).fill(1)],
    ['log_probs', Array(4097).fill(-1)],
    ['top_logprobs', Array(4097).fill([])],
    ['top_logprobs', [Array(129).fill(TOP)]],
    ['text', 5],
    ['text', 'x'.repeat(32_769)],
    ['tokens', [5]],
    ['content_parts', { length: 3 }],
    ['cum_log_probs', Number.NaN],
    ['log_probs', ['0']],
    ['top_logprobs', [TOP]],
    ['top_logprobs', [[{ ...TOP, token_id: 'a' }]]],
    ['top_logprobs', [[{ ...TOP, bytes: [256] }]]],
    ['finish_reason', { error: 5 }],
    ['stop_reason', {}],
    ['index', 1e300],
    ['completion_usage', { prompt_tokens: -1, completion_tokens: 0 }],
    ['completion_usage', { prompt_tokens: 1, completion_tokens: 0, prompt_tokens_details: { cached_tokens: '5' } }],
    ['engine_data', []],
  ])('refuses %s that cannot be: %j', (name, value) => {
    expect(readEngineOutput({ [name]: value })).toMatch(new RegExp(`^an output whose ${name} is not `));
  });

  it('takes every piece that a long output is cut into, which joined are the output', () => {
    const text = fc
      .integer({ min: 0, max: 70_000 })
      .chain((length) =>
        fc
          .string({ unit: 'binary', maxLength: 7 })
          .map((unit) => (unit === '' ? 'x' : unit).repeat(length).slice(0, length)),
      );
    fc.assert(
      fc.property(text, fc.nat(10_000), (long, tokens) => {
        const ids = Array.from({ length: tokens }, (_, at) => at);
        const output: EngineOutput = { text: long, index: 2, finish_reason: 'stop', token_ids: ids, log_probs: ids };
        const pieces = cutLongOutput(output);
        for (const piece of pieces) expect(readEngineOutput(piece)).toBe(piece);
        expect(pieces.map((piece) => piece.text).join('')).toBe(long);
        expect(pieces.every(({ index }) => index === 2)).toBe(true);
        expect(pieces.flatMap((piece) => piece.token_ids)).toEqual(ids);
        expect(pieces.flatMap((piece) => piece.log_probs)).toEqual(ids);
        expect(pieces.filter((piece) => 'finish_reason' in piece)).toEqual([pieces.at(-1)]);
        for (const piece of pieces.slice(0, -1)) expect(piece.text).not.toMatch(/[\ud800-\udbff]$/);
      }),
      { numRuns: 50 },
    );
  });

  it('answers for anything, and never throws', () => {
    fc.assert(
      fc.property(fc.anything(), (data) => {
        const read = readEngineOutput(data);
        expect(typeof read === 'string' || read === data || Array.isArray(read.token_ids)).toBe(true);
      }),
    );
  });
});
