import { describe, expect, it } from 'vitest';
import { PlannerOutbox } from '../../../../shared/planes/index.ts';
import { type OutgoingMessage, type PlannerQueue, QueueError } from '../../../../shared/planes/queue/types.ts';
import type { PlannerSignal } from '../../../../shared/protocol/index.ts';
import { createPlannerQueueMetrics, MetricRegistry } from '../../../../shared/telemetry/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { changeAt, heldAt } from '../../../support/planner/fleet-signals.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

/** A queue that takes what it is sent when `answer` says so. */
function bedOf(answer: (batch: readonly OutgoingMessage[]) => Promise<void> | void = () => {}) {
  const clock = new VirtualClock(1_800_000_000_000);
  const { logger, lines } = captureLogger();
  const registry = new MetricRegistry();
  const sent: PlannerSignal[] = [];
  const tries: number[] = [];
  let isClosed = false;
  const queue: PlannerQueue = {
    name: 'memory',
    send: async (messages) => {
      tries.push(clock.nowMs());
      await answer(messages);
      sent.push(...messages.map(({ body }) => JSON.parse(body) as PlannerSignal));
    },
    receive: async () => [],
    delete: async () => {},
    close: async () => {
      isClosed = true;
    },
  };
  const outbox = new PlannerOutbox({ queue, clock, logger, metrics: createPlannerQueueMetrics(registry) });
  const pass = async (ms = 0): Promise<void> => {
    for (let turn = 0; turn < 20; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(ms / 20);
    }
  };
  const counted = async (outcome: string): Promise<number> => {
    const text = await registry.render();
    return Number(new RegExp(`events_total\\{outcome="${outcome}"\\} (\\d+)`).exec(text)?.[1] ?? Number.NaN);
  };
  return { clock, lines, sent, tries, outbox, pass, counted, isClosed: () => isClosed };
}

const held = (seq: number): PlannerSignal => heldAt(seq, seq, seq + 1).signal;
const gone = (worker: number): PlannerSignal => changeAt('worker.gone', 0, worker, 1).signal;
const away = (): never => {
  throw new QueueError('unavailable', 'cannot reach SQS');
};

describe('events on their way to the queue of planners', () => {
  it('go together, ten at most, in the order in which they were put', async () => {
    const sizes: number[] = [];
    const { outbox, sent, pass } = bedOf((batch) => void sizes.push(batch.length));
    for (let at = 0; at < 25; at++) outbox.put(gone(at));
    await pass();
    expect(sizes).toEqual([10, 10, 5]);
    expect(sent).toEqual(Array.from({ length: 25 }, (_, at) => gone(at)));
  });

  it('are not lost where a newer one of their kind comes while they are sent', async () => {
    const answers: (() => void)[] = [];
    const { outbox, sent, pass } = bedOf(() => new Promise<void>((resolve) => void answers.push(resolve)));
    outbox.put(held(0));
    await pass();
    outbox.put(held(1));
    answers[0]?.();
    await pass();
    answers[1]?.();
    await pass();
    expect(sent).toEqual([held(0), held(1)]);
  });

  it('that a newer one stands for are not sent after it', async () => {
    let isAway = true;
    const { outbox, sent, pass, counted } = bedOf(() => (isAway ? away() : undefined));
    for (let seq = 0; seq < 4; seq++) {
      outbox.put(held(seq));
      await pass(1000);
    }
    isAway = false;
    await pass(6000);
    expect(sent).toEqual([held(3)]);
    expect(await counted('superseded')).toBe(3);
    expect(await counted('sent')).toBe(1);
  });

  it('are tried again after pauses that grow to five seconds, and told of once', async () => {
    const { outbox, lines, tries, pass } = bedOf(away);
    outbox.put(held(0));
    for (let second = 0; second < 50; second++) await pass(1000);
    const pauses = tries.slice(1).map((atMs, at) => Math.round((atMs - tries[at]!) / 500) * 500);
    expect(pauses.slice(0, 6)).toEqual([500, 1000, 2000, 4000, 5000, 5000]);
    expect(lines).toMatchObject([{ level: 'warn', message: 'the planner queue takes no events; trying again' }]);
  });

  it('say loudly, and try less often, what waiting does not mend', async () => {
    const { outbox, lines, tries, pass } = bedOf(() => {
      throw new QueueError('misconfigured', 'no such queue');
    });
    outbox.put(held(0));
    for (let second = 0; second < 40; second++) await pass(1000);
    expect(tries).toHaveLength(3);
    expect(lines).toMatchObject([{ level: 'error', fields: { reason: 'no such queue' } }]);
  });

  it('are given up after a minute, counted and told', async () => {
    const { outbox, lines, pass, counted } = bedOf(away);
    outbox.put(gone(0));
    for (let second = 0; second < 70; second++) await pass(1000);
    expect(await counted('expired')).toBe(1);
    expect(lines.at(-1)).toMatchObject({ message: 'events for the planner were dropped', fields: { events: 1 } });
  });

  it('have room for a thousand, of which the oldest go first', async () => {
    let isAway = true;
    const { outbox, sent, pass, counted } = bedOf(() => (isAway ? away() : undefined));
    for (let at = 0; at < 1010; at++) outbox.put(gone(at));
    isAway = false;
    await pass(2000);
    expect(await counted('no_room')).toBe(10);
    expect(sent).toHaveLength(1000);
    expect(sent[0]).toEqual(gone(10));
  });

  it('that no queue takes are refused by their length, and block nothing', async () => {
    const { outbox, sent, lines, pass, counted } = bedOf();
    outbox.put({ ...held(0), model: 'm'.repeat(300_000) });
    outbox.put(held(1));
    await pass();
    expect(sent).toEqual([held(1)]);
    expect(await counted('too_long')).toBe(1);
    expect(lines).toMatchObject([{ level: 'error', message: 'an event is too long for the planner queue' }]);
  });

  it('end with their process: what waits goes out, or is counted, in bounded time', async () => {
    const quick = bedOf();
    quick.outbox.put(held(0));
    const closed = quick.outbox.close(1000);
    await quick.pass();
    await closed;
    expect(quick.sent).toEqual([held(0)]);
    const stuck = bedOf(() => new Promise<void>(() => {}));
    stuck.outbox.put(held(0));
    const ended = stuck.outbox.close(1000);
    let isEnded = false;
    void ended.then(() => {
      isEnded = true;
    });
    await stuck.pass(900);
    expect(isEnded).toBe(false);
    await stuck.pass(300);
    expect(isEnded).toBe(true);
    expect(await stuck.counted('no_time')).toBe(1);
    expect(stuck.isClosed()).toBe(true);
    stuck.outbox.put(held(1)); // says nothing, throws nothing
  });
});
