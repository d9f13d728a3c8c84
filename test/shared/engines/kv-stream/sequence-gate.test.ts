import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SequenceGate } from '../../../../shared/engines/kv-stream/rank-stream.ts';

describe('order of batches', () => {
  it.each([
    ['the first of all', [], 0, 1, 'next'],
    ['the next', [[0, 1]], 1, 2, 'next'],
    ['one left out', [[0, 1]], 2, 3, 'gap'],
    ['a first one that is late', [], 5, 9, 'gap'],
    [
      'a copy',
      [
        [0, 1],
        [1, 2],
      ],
      1,
      2,
      'duplicate',
    ],
    [
      'an older copy',
      [
        [0, 1],
        [1, 2],
      ],
      0,
      1,
      'duplicate',
    ],
    [
      'a new process',
      [
        [0, 1],
        [1, 2],
      ],
      0,
      3,
      'restart',
    ],
    [
      'a new process further on',
      [
        [0, 1],
        [1, 2],
      ],
      1,
      4,
      'restart',
    ],
  ] as const)('knows %s', (_, taken, sequence, timestampSecs, verdict) => {
    const gate = new SequenceGate();
    for (const [number, time] of taken) gate.take(number, time);
    expect(gate.judge(sequence, timestampSecs)).toBe(verdict);
  });

  it('takes each batch of each incarnation once and in order, however copies are mixed in', () => {
    const lives = fc.array(fc.nat({ max: 8 }), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(lives, fc.infiniteStream(fc.nat({ max: 3 })), (lengths, copies) => {
        const gate = new SequenceGate();
        const sent: (readonly [number, number])[] = [];
        const taken: (readonly [number, number])[] = [];
        let clock = 0;
        for (const length of lengths) {
          const life = Array.from({ length: length + 1 }, (_, at) => [at, ++clock] as const);
          sent.push(...life);
          life.forEach((batch, at) => {
            const again = life.slice(0, at).slice(-copies.next().value!);
            for (const [number, time] of [batch, ...again]) {
              const verdict = gate.judge(number, time);
              if (verdict === 'restart') gate.reset();
              if (verdict === 'duplicate') continue;
              gate.take(number, time);
              taken.push([number, time]);
            }
          });
        }
        expect(taken).toEqual(sent);
      }),
    );
  });
});
