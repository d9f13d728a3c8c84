import { describe, expect, it } from 'vitest';
import { BlockIndex, RankTable } from '../../../../shared/block-index/index.ts';
import { decodeEnvelope } from '../../../../shared/planes/event/envelope.ts';
import type { EventEnvelope } from '../../../../shared/planes/index.ts';
import { decodeRecord } from '../../../../shared/planes/record-codec.ts';
import { asRecord } from '../../../../shared/records/index.ts';
import { decodeActiveSequences, encodeActiveSequence } from '../../../../shared/router-state/replica-sync.ts';
import { decodeRouterEvent, decodeRouterEvents } from '../../../../shared/worker-events/kv-events.ts';
import { decodeLoadReport, isOfRouter } from '../../../../shared/worker-events/worker-loads.ts';
import { applyTo, heldBy } from '../scripted-rank.ts';
import { type RecordedMessage, recordedAnswer, recordedMessages } from './recorded.ts';

const WORKER = '9db37d2562346f53';
const PUBLISHER = '1e9e508b1ee265';

function envelopeOf({ topic, frames }: RecordedMessage): EventEnvelope {
  const [publisherId, sequence, body] = frames.map((hex) => Buffer.from(hex, 'hex'));
  return decodeEnvelope(topic, { publisherId: publisherId!, sequence: sequence!, body: body! }) as EventEnvelope;
}

/** Returns the item of an answer of one item. */
function itemOf(start: number | null): Readonly<Record<string, unknown>> {
  const [first, last] = recordedAnswer(start).bodies.map((hex) => {
    const bytes = Buffer.from(hex, 'hex');
    return asRecord(decodeRecord(bytes, 0, bytes.length));
  });
  expect(last).toEqual({ complete_final: true });
  return asRecord(first?.data) ?? {};
}

function emptyIndex() {
  const ranks = new RankTable();
  return { index: new BlockIndex({ ranks }), rank: ranks.intern(WORKER, 0) };
}

const fail = (): never => expect.unreachable();

describe('events that Dynamo 1.6.1 published', () => {
  const messages = recordedMessages('kv-events').map(envelopeOf);
  const events = messages.flatMap(({ payload }) => decodeRouterEvents(payload, fail));

  it('come in messages numbered from 0 and events numbered from 1, without a gap', () => {
    expect(messages.map(({ sequence }) => sequence)).toEqual(Array.from(messages, (_, at) => at));
    expect(events.map(({ eventId }) => eventId)).toEqual(Array.from(events, (_, at) => at + 1));
    expect(new Set(messages.map(({ publisherId }) => publisherId))).toEqual(new Set([PUBLISHER]));
    expect(new Set(events.map(({ workerId }) => workerId))).toEqual(new Set([WORKER]));
    expect(new Set(events.map(({ change }) => change.kind))).toEqual(new Set(['stored', 'removed']));
  });

  it('lead to the blocks that the worker itself reports afterwards', () => {
    const followed = emptyIndex();
    const statuses = events.map(({ change }) => applyTo(followed.index, followed.rank, change));
    expect(statuses).toHaveLength(47);
    const restored = emptyIndex();
    const { TreeDump } = itemOf(null);
    const dump = asRecord(TreeDump)!;
    expect(dump.last_event_id).toBe(events.length);
    for (const record of dump.events as readonly unknown[]) {
      const event = decodeRouterEvent(record);
      if (typeof event === 'string') throw new Error(event);
      applyTo(restored.index, restored.rank, event.change);
    }
    const blocks = heldBy(followed.index, followed.rank);
    expect(blocks.length).toBeGreaterThan(20);
    expect(blocks).toEqual(heldBy(restored.index, restored.rank));
  });

  it('are the same when the worker is asked for a range of them', () => {
    const range = asRecord(itemOf(30).Events)!;
    expect(range.last_event_id).toBe(events.length);
    expect((range.events as readonly unknown[]).map(decodeRouterEvent)).toEqual(events.slice(29));
  });

  it('end where a worker says so that is asked for later ones', () => {
    expect(itemOf(1000)).toEqual({
      TooNew: { requested_start: 1000, requested_end: events.length, newest_available: events.length },
    });
  });

  it('come with reports of the blocks in use, which are the worker its own', () => {
    const reports = recordedMessages('kv_metrics').map((message) => decodeLoadReport(envelopeOf(message).payload)!);
    expect(reports.map(({ workerId, dpRank }) => [workerId, dpRank])).toEqual(Array(8).fill([WORKER, 0]));
    expect(new Set(reports.map(({ usedKvBlocks }) => usedKvBlocks))).toContain(0);
    expect(Math.max(...reports.map(({ usedKvBlocks }) => usedKvBlocks ?? 0))).toBeGreaterThan(3);
    expect(reports.some(isOfRouter)).toBe(false);
  });
});

describe('requests that a router of Dynamo 1.6.1 told its peers', () => {
  const payloads = recordedMessages('active_sequences_events').map((message) => envelopeOf(message).payload);
  const events = payloads.flatMap((payload) => decodeActiveSequences(payload, fail));

  it('begin, end their prefill, and end', () => {
    const router = events.find(({ change }) => change.kind === 'added')!.routerId;
    const own = events.filter(({ routerId }) => routerId === router);
    const first = own.filter(({ requestId }) => requestId === own[0]!.requestId);
    expect(first.map(({ change }) => change.kind)).toEqual(['added', 'prefill_done', 'freed']);
    expect(first[0]!.change).toMatchObject({ tracksPrefillTokens: true, prefillTokens: 70 });
    expect(new Set(events.map(({ workerId }) => workerId))).toEqual(new Set([WORKER]));
  });

  it('also end their prefill by a mark of the worker itself', () => {
    const marks = events.filter(({ routerId }) => routerId === WORKER);
    expect(marks.length).toBeGreaterThan(0);
    expect(new Set(marks.map(({ change }) => change.kind))).toEqual(new Set(['prefill_done']));
  });

  it('are written in the same form for them', () => {
    for (const payload of payloads) {
      const written = decodeActiveSequences(payload, fail).map((event) => encodeActiveSequence(event, 'dynamo'));
      expect(exact({ events: written })).toEqual(exact(payload));
    }
  });
});

/** Returns `value` with every whole number as a bigint: a codec may read a small one either way. */
function exact(value: unknown): unknown {
  if (typeof value === 'number') return BigInt(value);
  if (Array.isArray(value)) return value.map(exact);
  const record = asRecord(value);
  return record === undefined
    ? value
    : Object.fromEntries(Object.entries(record).map(([key, each]) => [key, exact(each)]));
}
