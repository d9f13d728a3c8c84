import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EventQueue } from '../../../shared/simulate/event-queue.ts';

describe('EventQueue', () => {
  it('gives events by time, then kind, then order of arrival, as a sorted list does', () => {
    const step = fc.oneof(
      fc.record({ timeMs: fc.constantFrom(0, 1, 1.5, 2, 1e9), kind: fc.integer({ min: 0, max: 3 }) }),
      fc.constant('pop' as const),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const queue = new EventQueue();
        const naive: { timeMs: number; kind: number; payload: number }[] = [];
        steps.forEach((action, payload) => {
          if (action !== 'pop') {
            queue.push(action.timeMs, action.kind, payload);
            naive.push({ ...action, payload });
            naive.sort((a, b) => a.timeMs - b.timeMs || a.kind - b.kind || a.payload - b.payload);
            return;
          }
          const first = naive.shift();
          expect(queue.nextMs).toBe(first?.timeMs ?? Number.POSITIVE_INFINITY);
          if (first === undefined) return;
          expect(queue.nextKind).toBe(first.kind);
          expect(queue.pop()).toBe(first.payload);
          expect(queue.size).toBe(naive.length);
        });
      }),
    );
  });
});
