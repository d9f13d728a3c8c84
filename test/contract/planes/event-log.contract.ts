import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EventLogEntry } from '../../../shared/planes/event/types.ts';
import type {
  EventLog,
  EventLogFollower,
  EventPlane,
  EventPublisher,
  EventScope,
} from '../../../shared/planes/index.ts';
import { waitUntil } from '../../support/index.ts';

/** Two processes of one deployment. Their logs hold fewer than 100 messages of 4 KiB, and at least 30. */
export interface EventLogHarness {
  /** Scope that no other test uses. */
  readonly scope: EventScope;
  readonly sender: EventPlane;
  readonly receiver: EventPlane;
  /** Makes the log of the scope and `LOG_TOPIC` anew and empty, without the knowledge of its readers and writers. */
  recreate(): Promise<void>;
  close(): Promise<void>;
}

export const LOG_TOPIC = 'kv-events';

interface Gap {
  readonly expected: number;
  readonly received: number;
}

/** Keeps the entries and gaps that it receives. */
export class LogHearing {
  readonly entries: EventLogEntry[] = [];
  readonly gaps: Gap[] = [];

  entry(entry: EventLogEntry): void {
    this.entries.push(entry);
  }

  gap(expected: number, received: number): void {
    this.gaps.push({ expected, received });
  }

  get sequences(): number[] {
    return this.entries.map((entry) => entry.sequence);
  }

  get payloads(): unknown[] {
    return this.entries.map((entry) => entry.envelope.payload);
  }
}

/** Tests what every `EventLog` does. */
export function describeEventLog(name: string, start: () => Promise<EventLogHarness>): void {
  describe(`event log: ${name}`, () => {
    const { signal } = new AbortController();
    const followers: EventLogFollower[] = [];
    let harness: EventLogHarness;
    let log: EventLog;
    let publisher: EventPublisher;
    beforeEach(async () => {
      harness = await start();
      log = await openLog(harness, harness.receiver);
      publisher = await harness.sender.publisher(harness.scope, LOG_TOPIC);
    });
    afterEach(async () => {
      for (const follower of followers.splice(0)) await follower.close();
      await harness.close();
    });

    /** Publishes and waits until the log holds it all. */
    async function publish(...payloads: readonly unknown[]): Promise<void> {
      const { lastSequence } = await log.state(signal);
      for (const payload of payloads) publisher.publish(payload);
      await waitUntil(async () => (await log.state(signal)).lastSequence === lastSequence + payloads.length);
    }

    async function readAll(fromSequence: number): Promise<EventLogEntry[]> {
      const entries: EventLogEntry[] = [];
      for await (const entry of log.read(fromSequence, signal)) entries.push(entry);
      return entries;
    }

    async function follow(fromSequence: number): Promise<LogHearing> {
      const hearing = new LogHearing();
      followers.push(await log.follow(fromSequence, hearing, signal));
      return hearing;
    }

    it('is empty at first, and made once', async () => {
      const state = await log.state(signal);
      expect(state).toEqual({ createdAt: expect.any(String), firstSequence: 1, lastSequence: 0 });
      expect(await (await openLog(harness, harness.sender)).state(signal)).toEqual(state);
      expect(await readAll(1)).toEqual([]);
    });

    it('keeps what is published, in order, as it was published', async () => {
      const payloads = [{ hashes: [2n ** 64n - 1n], parent: null }, [1, 'ä'], 7];
      await publish(...payloads);
      expect(await log.state(signal)).toMatchObject({ firstSequence: 1, lastSequence: 3 });
      const entries = await readAll(1);
      expect(entries.map((entry) => entry.sequence)).toEqual([1, 2, 3]);
      expect(entries.map((entry) => entry.envelope.payload)).toEqual(payloads);
      expect(entries[2]!.envelope).toMatchObject({ topic: LOG_TOPIC, publisherId: publisher.publisherId, sequence: 2 });
    });

    it('is read from where the reader stands to where it ended then', async () => {
      await publish(1, 2, 3, 4);
      expect((await readAll(3)).map((entry) => entry.sequence)).toEqual([3, 4]);
      expect(await readAll(5)).toEqual([]);
      expect(await readAll(1000)).toEqual([]);
      const reading = log.read(1, signal)[Symbol.asyncIterator]();
      expect((await reading.next()).value).toMatchObject({ sequence: 1 });
      await publish(5);
      const rest: number[] = [];
      for (let next = await reading.next(); !next.done; next = await reading.next()) rest.push(next.value.sequence);
      expect(rest).toEqual([2, 3, 4]);
    });

    it('holds other topics and scopes apart', async () => {
      const other: EventScope = { kind: 'component', namespace: harness.scope.namespace, component: 'other' };
      const otherLog = await harness.receiver.log!(other, LOG_TOPIC, signal);
      const elsewhere = await harness.sender.publisher(other, LOG_TOPIC);
      elsewhere.publish('elsewhere');
      await waitUntil(async () => (await otherLog.state(signal)).lastSequence === 1);
      await publish('here');
      expect((await readAll(1)).map((entry) => entry.envelope.payload)).toEqual(['here']);
    });

    it('forgets the oldest at its bound, and reading begins with what is left', async () => {
      const payload = 'x'.repeat(4096);
      await publish(...Array.from({ length: 200 }, () => payload));
      const { firstSequence, lastSequence } = await log.state(signal);
      expect(lastSequence).toBe(200);
      expect(firstSequence).toBeGreaterThan(100);
      expect(firstSequence).toBeLessThanOrEqual(171);
      const entries = await readAll(1);
      expect(entries[0]!.sequence).toBe(firstSequence);
      expect(entries).toHaveLength(201 - firstSequence);
      const hearing = await follow(50);
      await waitUntil(() => hearing.entries.length === entries.length);
      expect(hearing.gaps).toEqual([{ expected: 50, received: firstSequence }]);
    });

    it('forgets up to a sequence when told to, as often as told, and counts on', async () => {
      await publish(1, 2, 3, 4, 5);
      await log.purge(3, signal);
      await log.purge(3, signal);
      await log.purge(1, signal);
      expect(await log.state(signal)).toMatchObject({ firstSequence: 4, lastSequence: 5 });
      expect((await readAll(1)).map((entry) => entry.sequence)).toEqual([4, 5]);
      await log.purge(1_000_000, signal);
      expect(await log.state(signal)).toMatchObject({ firstSequence: 6, lastSequence: 5 });
      await publish(6);
      expect((await readAll(1)).map((entry) => entry.sequence)).toEqual([6]);
    });

    it('is followed: what is there, then what comes', async () => {
      await publish('a', 'b');
      const hearing = await follow(2);
      await waitUntil(() => hearing.entries.length === 1);
      await publish('c', 'd');
      await waitUntil(() => hearing.entries.length === 3);
      expect(hearing.sequences).toEqual([2, 3, 4]);
      expect(hearing.payloads).toEqual(['b', 'c', 'd']);
      expect(hearing.gaps).toEqual([]);
    });

    it('is read and followed in order where one of the events is long', async () => {
      const long = Array.from({ length: 20_000 }, (_, at) => -at - 1);
      const payloads = ['before', long, 'behind'];
      const early = await follow(1);
      await publish(...payloads);
      const late = await follow(1);
      await waitUntil(() => early.entries.length === 3 && late.entries.length === 3);
      expect(early.payloads).toEqual(payloads);
      expect(late.payloads).toEqual(payloads);
      expect((await readAll(1)).map((entry) => entry.envelope.payload)).toEqual(payloads);
    });

    it('is followed no more once closed', async () => {
      const hearing = await follow(1);
      const witness = await follow(1);
      await followers[0]!.close();
      await followers[0]!.close();
      await publish('unheard');
      await waitUntil(() => witness.entries.length === 1);
      expect(hearing.entries).toEqual([]);
    });

    it('tells a follower of what was purged before it came there', async () => {
      await publish(1, 2, 3);
      await log.purge(2, signal);
      const hearing = await follow(1);
      await waitUntil(() => hearing.sequences.at(-1) === 3);
      expect(hearing.gaps).toEqual([{ expected: 1, received: 3 }]);
      expect(hearing.sequences).toEqual([3]);
    });

    it('made anew is reported to followers, which continue with it from its start', async () => {
      await publish(1, 2, 3);
      const hearing = await follow(1);
      await waitUntil(() => hearing.entries.length === 3);
      await harness.recreate();
      await waitUntil(() => hearing.gaps.length > 0);
      expect(hearing.gaps).toEqual([{ expected: 4, received: 1 }]);
      publisher.publish('new');
      await waitUntil(() => hearing.entries.length === 4);
      expect(hearing.entries[3]).toMatchObject({ sequence: 1, envelope: { payload: 'new' } });
    });

    it('made anew is refused to readers that know the one before, until they look again', async () => {
      await publish(1, 2, 3);
      const before = await log.state(signal);
      await harness.recreate();
      await expect(readAll(2)).rejects.toThrow('created anew');
      await expect(log.purge(2, signal)).rejects.toThrow('created anew');
      const hearing = await follow(4);
      await waitUntil(() => hearing.gaps.length > 0);
      expect(hearing.gaps).toEqual([{ expected: 4, received: 1 }]);
      const after = await log.state(signal);
      expect(after.createdAt).not.toBe(before.createdAt);
      expect(after).toMatchObject({ firstSequence: 1, lastSequence: 0 });
      expect(await readAll(1)).toEqual([]);
    });

    it('rejects with the reason of a signal that has aborted', async () => {
      const reason = new Error('enough');
      const aborted = AbortSignal.abort(reason);
      await expect(log.state(aborted)).rejects.toBe(reason);
      await expect(log.purge(1, aborted)).rejects.toBe(reason);
      await expect(log.follow(1, new LogHearing(), aborted)).rejects.toBe(reason);
      await publish(1);
      await expect(log.read(1, aborted)[Symbol.asyncIterator]().next()).rejects.toBe(reason);
    });
  });
}

async function openLog({ scope }: EventLogHarness, plane: EventPlane): Promise<EventLog> {
  const log = await plane.log!(scope, LOG_TOPIC, new AbortController().signal);
  await log.state(new AbortController().signal);
  return log;
}
