import { describe, expect, it } from 'vitest';
import { queueHandler } from '../../../../shared/commands/index.ts';
import type { QueuePlanner, QueueRecord } from '../../../../shared/planner/index.ts';
import { queueEvent } from '../../../support/planner/queue-event.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const CONTEXT = { getRemainingTimeInMillis: () => 45_000 };
const event = queueEvent([{ id: 'm1', group: 'ns#m', body: { type: 'tick' }, sentAtMs: 1_800_000_000_000 }]);

/** A planner whose batches end with their signal. */
const patient: Pick<QueuePlanner, 'handle'> = {
  handle: (records, signal) =>
    new Promise((resolve) => {
      signal.addEventListener('abort', () => resolve(records.map(({ messageId }) => messageId)));
    }),
};

describe('the handler of the queue of a planner', () => {
  it('reads messages as Lambda hands them over', async () => {
    const seen: QueueRecord[] = [];
    const handle: QueuePlanner['handle'] = async (records) => {
      seen.push(...records);
      return [];
    };
    await queueHandler({ clock: new VirtualClock(), open: async () => ({ handle }) })(event, CONTEXT);
    expect(seen).toEqual([{ messageId: 'm1', group: 'ns#m', body: '{"type":"tick"}', sentAtMs: 1_800_000_000_000 }]);
  });

  it('ends the work five seconds before the time of the function is over', async () => {
    const clock = new VirtualClock();
    let isOver = false;
    const answer = queueHandler({ clock, open: async () => patient })(event, CONTEXT).finally(() => {
      isOver = true;
    });
    await clock.advance(39_999);
    expect(isOver).toBe(false);
    await clock.advance(1);
    expect(await answer).toEqual({ batchItemFailures: [{ itemIdentifier: 'm1' }] });
  });

  it('opens the planner once, and again only after that has failed', async () => {
    let opened = 0;
    const open = async () => {
      if (opened++ === 0) throw new Error('the table is away');
      return { handle: async () => [] };
    };
    const handler = queueHandler({ clock: new VirtualClock(), open });
    await expect(handler(event, CONTEXT)).rejects.toThrow('the table is away');
    for (let batch = 0; batch < 2; batch++) expect(await handler(event, CONTEXT)).toEqual({ batchItemFailures: [] });
    expect(opened).toBe(2);
  });

  it.each([
    [{}, 'not an event of a FIFO queue: Records must be a list, but is missing'],
    [{ Records: [{ messageId: 'm', body: '', attributes: {} }] }, 'MessageGroupId must be a text, but is missing'],
  ])('refuses %j', async (wrong, problem) => {
    const handler = queueHandler({ clock: new VirtualClock(), open: async () => patient });
    await expect(handler(wrong, CONTEXT)).rejects.toThrow(problem);
  });
});
