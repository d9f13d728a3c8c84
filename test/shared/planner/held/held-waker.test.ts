import { describe, expect, it } from 'vitest';
import type { OutgoingMessage } from '../../../../shared/planes/queue/types.ts';
import { HeldWaker } from '../../../../shared/planner/index.ts';
import { readPlannerText } from '../../../../shared/protocol/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { MemoryHeldNotes } from '../../../support/memory-held-notes.ts';
import { MemoryPlannerQueue } from '../../../support/memory-planner-queue.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const NEVER = new AbortController().signal;
const GROUP = 'ns#m';
const BEGAN_MS = 1_700_000_000_000; // a multiple of 5 s
const noteOf = (count: number, oldestAtMs = BEGAN_MS) => ({ namespace: 'ns', model: 'm', count, oldestAtMs });

function open() {
  const clock = new VirtualClock(BEGAN_MS);
  const notes = new MemoryHeldNotes(clock);
  const queue = new MemoryPlannerQueue(clock);
  const sent: OutgoingMessage[] = [];
  const told: [string, number][] = [];
  const bed = { fault: undefined as Error | undefined, looks: 0 };
  const { logger, lines } = captureLogger();
  /** Each is a process of its own. */
  const newWaker = (): HeldWaker =>
    new HeldWaker({
      notes: {
        live: async (group, signal) => {
          bed.looks++;
          return notes.live(group, signal);
        },
      },
      queue: {
        send: async (messages, signal) => {
          if (bed.fault !== undefined) throw bed.fault;
          sent.push(...messages);
          await queue.send(messages, signal);
        },
      },
      clock,
      logger: logger.for('planner'),
      onTold: (model, count) => told.push([model, count]),
    });
  /** Events that the queue has kept, each once. */
  const received = async () => {
    const messages = await queue.receive({ waitMs: 0, hiddenMs: 1000 }, NEVER);
    await queue.delete(messages, NEVER);
    return messages.map(({ body }) => {
      const read = readPlannerText(body);
      if (read.kind !== 'event') throw new Error(`not an event: ${body}`);
      return read.event;
    });
  };
  return { clock, notes, newWaker, received, sent, told, bed, lines };
}

describe('what the planner hears of what functions hold', () => {
  it('is the sum of all environments, as one event that a planner reads', async () => {
    const { notes, newWaker, received, told, sent } = open();
    for (let at = 0; at < 50; at++) await notes.put(`e${at}`, noteOf(1, BEGAN_MS - at), NEVER);
    expect(await newWaker().wake([GROUP, GROUP], NEVER)).toEqual([]);
    expect(await received()).toEqual([
      {
        ...{ type: 'request.held', v: 1, namespace: 'ns', model: 'm', source: 'functions' },
        ...{ held_count: 50, oldest_at: BEGAN_MS - 49, epoch: 'functions', seq: BEGAN_MS / 5000 },
      },
    ]);
    expect(sent[0]?.group).toBe(GROUP);
    expect(told).toEqual([['m', 50]]);
  });

  it('is one event for each 5 s, however many records come and processes tell', async () => {
    const { clock, notes, newWaker, received, bed } = open();
    const wakers = [newWaker(), newWaker()];
    const counts: number[] = [];
    for (let ms = 0; ms < 30_000; ms += 250) {
      if (ms % 5000 === 0) for (let at = 0; at < 50; at++) await notes.put(`e${at}`, noteOf(1), NEVER);
      await wakers[(ms / 250) % 2]?.wake([GROUP], NEVER);
      await clock.advance(250);
    }
    for (const event of await received()) if (event.type === 'request.held') counts.push(event.held_count);
    expect(counts).toEqual([50, 50, 50, 50, 50, 50]);
    expect(bed.looks).toBe(12); // each process looks once in 5 s
  });

  it('leaves out environments that ended without a word, and is nothing once none holds', async () => {
    const { clock, notes, newWaker, received } = open();
    const waker = newWaker();
    await notes.put('killed', noteOf(4), NEVER);
    await clock.advance(5000);
    await notes.put('alive', noteOf(1), NEVER);
    await waker.wake([GROUP], NEVER);
    await clock.advance(7000);
    await waker.wake([GROUP], NEVER);
    await clock.advance(5000);
    await waker.wake([GROUP], NEVER);
    expect(await received()).toMatchObject([{ held_count: 5 }, { held_count: 1 }]);
  });

  it('names the models that could not be told, and tells the others', async () => {
    const { notes, newWaker, received, bed, lines } = open();
    await notes.put('e', noteOf(1), NEVER);
    const waker = newWaker();
    bed.fault = new Error('no queue');
    expect(await waker.wake([GROUP, 'ns#idle'], NEVER)).toEqual([GROUP]);
    expect(lines).toMatchObject([{ message: 'the planner was not told of held requests' }]);
    bed.fault = undefined;
    expect(await waker.wake([GROUP], NEVER)).toEqual([]);
    expect(await received()).toHaveLength(1);
  });
});
