import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ResponseAssembler } from '../../../../shared/pipeline/answer/response-assembler.ts';
import { TextTokens } from '../../../../shared/pipeline/answer/text-tokens.ts';
import { idleMeter, letterModel, letterTokenizer, model, preprocessNow, RecordingSink, request } from '../fixtures.ts';

describe('the tokens of text that comes without ids', () => {
  it('are those of the model’s tokenizer, each piece for itself', () => {
    const tokens = new TextTokens(letterTokenizer);
    expect(['abc', '', 'de'].map((piece) => tokens.of(piece))).toEqual([3, 0, 2]);
  });

  it('estimates where the tokenizer encodes in threads alone', () => {
    const encode = (): never => {
      throw new TypeError('not in this thread');
    };
    expect(new TextTokens({ ...letterTokenizer, encode, encodesInThreads: true }).of('abcdef')).toBe(2);
  });

  it('are one for every three bytes so far where there is no tokenizer', () => {
    const tokens = new TextTokens(undefined);
    expect(['a', 'bc', '', 'd', '€', 'efghij'].map((piece) => tokens.of(piece))).toEqual([1, 0, 0, 1, 1, 2]);
  });

  it('are estimated for pieces too long to be encoded at once', () => {
    expect(new TextTokens(letterTokenizer).of('a'.repeat(30_000))).toBe(10_000);
  });
});

describe('the end of an answer in text', () => {
  const PIECES = fc.array(fc.string({ maxLength: 40 }), { maxLength: 12 });
  const REASON = fc.constantFrom('stop', 'length', 'eos', undefined);

  function answer(pieces: readonly string[], max_tokens: number, reason: string | undefined, isTokens: boolean) {
    const sink = new RecordingSink();
    const asked = request({ stop: { max_tokens } });
    const loaded = isTokens ? letterModel : undefined;
    const assembler = new ResponseAssembler(asked, preprocessNow(asked, model(), letterModel), loaded, sink, idleMeter);
    for (const text of pieces) assembler.output({ text });
    if (!assembler.isComplete) assembler.output({ finish_reason: (reason ?? 'stop') as 'stop' });
    assembler.end();
    return sink;
  }

  it('is the worker’s own where all of it is delivered, whatever its tokens are estimated at', () => {
    for (const isTokens of [false, true]) {
      const { shown, finished } = answer(['Hello there, ', 'all is said.'], 3, 'stop', isTokens);
      expect([shown, finished?.reason]).toEqual(['Hello there, all is said.', 'stop']);
    }
  });

  it('is `length` only where the worker says so or text is left out', () => {
    fc.assert(
      fc.property(PIECES, fc.integer({ min: 1, max: 60 }), REASON, fc.boolean(), (pieces, max, reason, isTokens) => {
        const { shown, finished } = answer(pieces, max, reason, isTokens);
        const whole = pieces.join('');
        expect(whole.startsWith(shown)).toBe(true);
        const isCut = shown.length < whole.length;
        expect(finished?.reason).toBe(isCut || reason === 'length' ? 'length' : 'stop');
      }),
    );
  });
});

describe('the usage of an answer in text', () => {
  function spent(loaded: typeof letterModel | undefined, told?: number) {
    const sink = new RecordingSink();
    const counted: number[] = [];
    const meter = { ...idleMeter, outputTokens: (count: number) => void counted.push(count) };
    const asked = request();
    const answer = new ResponseAssembler(asked, preprocessNow(asked, model(), letterModel), loaded, sink, meter);
    answer.output({ text: 'abcd' });
    answer.output({ text: 'ef' });
    const usage = told === undefined ? {} : { completion_usage: { prompt_tokens: 3, completion_tokens: told } };
    answer.output({ finish_reason: 'stop', ...usage });
    answer.end();
    return { shown: sink.shown, counted, tokens: sink.ended?.usage.completionTokens };
  }

  it('counts it, unless the worker says what it is', () => {
    expect(spent(letterModel)).toEqual({ shown: 'abcdef', counted: [4, 2], tokens: 6 });
    expect(spent(undefined)).toEqual({ shown: 'abcdef', counted: [2], tokens: 2 });
    expect(spent(letterModel, 9).tokens).toBe(9);
    expect(spent(undefined, 9).tokens).toBe(9);
  });
});
