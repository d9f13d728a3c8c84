import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { MemoryPlannerQueue } from '../../support/memory-planner-queue.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { describePlannerQueue } from './queue.contract.ts';

describePlannerQueue('memory', async () => {
  const queue = new MemoryPlannerQueue(systemClock);
  return [queue, queue];
});

describe('the memory queue', () => {
  it('drops the oldest when nothing reads them, and counts them', async () => {
    const queue = new MemoryPlannerQueue(new VirtualClock());
    const signal = new AbortController().signal;
    const messages = Array.from({ length: 10_003 }, (_, at) => ({
      group: 'g',
      deduplicationId: `${at}`,
      body: `${at}`,
    }));
    await queue.send(messages, signal);
    expect(queue.dropped).toBe(3);
    const [first] = await queue.receive({ waitMs: 0, hiddenMs: 1000 }, signal);
    expect(first?.body).toBe('3');
  });
});
