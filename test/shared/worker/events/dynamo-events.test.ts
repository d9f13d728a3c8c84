import { readFileSync } from 'node:fs';
import { Unpackr } from 'msgpackr';
import { beforeEach, describe, expect, it } from 'vitest';
import { BlockIndex, RankTable } from '../../../../shared/block-index/index.ts';
import { systemClock } from '../../../../shared/clock/index.ts';
import type { DiscoveryRecord, EventChannelRecord } from '../../../../shared/discovery/index.ts';
import type { KvEvent } from '../../../../shared/engines/index.ts';
import type { ServeError } from '../../../../shared/errors/index.ts';
import type { IncomingCall } from '../../../../shared/planes/index.ts';
import type { EngineOutput } from '../../../../shared/protocol/index.ts';
import { DynamoEvents } from '../../../../shared/worker/events/dynamo-events.ts';
import { JoinedRecovery } from '../../../../shared/worker/events/dynamo-recovery.ts';
import { KvEventPublisher } from '../../../../shared/worker/events/kv-event-publisher.ts';
import { RankJournal, RecoveryService } from '../../../../shared/worker/events/rank-journal.ts';
import { decodeRouterEvents } from '../../../../shared/worker-events/index.ts';
import { createMemoryEventPlane } from '../../../support/memory-event-plane.ts';
import { waitUntil } from '../../../support/wait-until.ts';

const ADDRESS = { namespace: 'dynamo', component: 'backend', endpoint: 'generate' };
const SCOPE = { kind: 'endpoint', ...ADDRESS } as const;
const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true, int64AsType: 'auto' as 'number' });

function stored(dpRank: number, first: number, blocks = 2): KvEvent {
  const words = Uint32Array.from({ length: 2 * blocks }, (_, at) => (at % 2 === 0 ? first + at / 2 : 0x8000_0000));
  return { kind: 'stored', dpRank, parentHash: undefined, blockHashes: words, tokensHashes: words };
}

/** Returns the first message of a topic that a mock worker of Dynamo 1.6.1 published. */
function recorded(topic: string): unknown {
  for (const line of readFileSync('test/fixtures/dynamo/events-1.6.1.jsonl', 'utf8').split('\n')) {
    const entry = JSON.parse(line) as { kind: string; topic?: string; frames?: string[] };
    if (entry.kind !== 'message' || entry.topic !== topic) continue;
    const envelope = unpackr.unpack(Buffer.from(entry.frames?.[2] ?? '', 'hex').subarray(5)) as { payload: Buffer };
    return unpackr.unpack(envelope.payload);
  }
  throw new Error(`no message of ${topic}`);
}

/** Returns the names of all members of a value, at any depth. */
function namesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.slice(0, 1).flatMap(namesIn);
  return Object.entries(value).flatMap(([name, each]) => [name, ...namesIn(each)]);
}

describe("the events of a worker for Dynamo's routers", () => {
  const channels: EventChannelRecord[] = [];
  const heard: (readonly [publisherId: string, payload: unknown])[] = [];
  let events: DynamoEvents;
  let publisher: KvEventPublisher;

  beforeEach(async () => {
    channels.length = 0;
    heard.length = 0;
    const plane = createMemoryEventPlane({ clock: systemClock });
    events = new DynamoEvents({ eventPlane: plane, address: ADDRESS, instanceId: '2a', dataParallelSize: 2 });
    const kv = await events.openKvEvents(channels);
    publisher = new KvEventPublisher({ publisher: kv, instanceId: '2a', dataParallelSize: 2 });
    const subscription = await plane.subscribe(SCOPE, 'kv-events', {
      event: ({ publisherId, payload }) => heard.push([publisherId, payload]),
    });
    for (const { instance_id, transport } of channels) subscription.connect(instance_id, transport);
  });

  it('say the same as those for routers of Stator, each rank by a publisher of its own', async () => {
    publisher.publish([
      stored(0, 1),
      stored(1, 7),
      { kind: 'removed', dpRank: 0, blockHashes: Uint32Array.of(2, 0x8000_0000) },
    ]);
    publisher.publish([{ kind: 'cleared', dpRank: 0 }]);
    await waitUntil(() => heard.length === 3, { what: 'three messages' });
    expect(heard.map(([id]) => channels.findIndex(({ instance_id }) => instance_id === id))).toEqual([0, 1, 0]);
    const read = heard.flatMap(([, payload]) => decodeRouterEvents(payload, (reason) => expect(reason).toBe('read')));
    expect(read.map(({ workerId, dpRank, eventId, change }) => [workerId, dpRank, eventId, change.kind])).toEqual([
      ['2a', 0, 1, 'stored'],
      ['2a', 0, 2, 'removed'],
      ['2a', 1, 1, 'stored'],
      ['2a', 0, 3, 'cleared'],
    ]);
    expect(read[0]?.change).toMatchObject({
      kind: 'stored',
      blockHashes: Uint32Array.of(1, 0x8000_0000, 2, 0x8000_0000),
    });
  });

  it('have the members that a worker of release 1.6.1 writes', async () => {
    publisher.publish([stored(0, 1)]);
    await waitUntil(() => heard.length === 1, { what: 'a message' });
    const theirs = namesIn(recorded('kv-events')).filter((name) => name !== 'residency_domain'); // absent = worker
    expect(namesIn(heard[0]?.[1])).toEqual(theirs);
  });

  it('are found by a channel and a source for each rank, at the scope of the endpoint', () => {
    expect(channels).toHaveLength(2);
    for (const channel of channels) expect(channel).toMatchObject({ scope: SCOPE, topic: 'kv-events', wire: 'dynamo' });
    const served: unknown[] = [];
    const records: DiscoveryRecord[] = events.sources((endpoint, dpRank) => {
      served.push([endpoint, dpRank]);
      return { dynamo_tcp: `h:1/2a/dynamo/backend/${endpoint}` };
    });
    const ids = channels.map(({ instance_id }) => instance_id);
    expect(served).toEqual(ids.map((id, rank) => [`worker_kv_query_source_${id}`, rank]));
    expect(records.filter(({ type }) => type === 'EventSource')).toEqual(
      ids.map((id, dp_rank) => ({
        type: 'EventSource',
        scope: SCOPE,
        topic: 'kv-events',
        instance_id: id,
        wire: 'dynamo',
        worker_id: '2a',
        dp_rank,
        kv_state_endpoint: ADDRESS,
        recovery_target: records.find((record) => 'endpoint' in record && record.endpoint.endsWith(id)),
      })),
    );
  });

  it('include the blocks in use, as a worker of release 1.6.1 writes them', async () => {
    const plane = createMemoryEventPlane({ clock: systemClock });
    const loads = new DynamoEvents({ eventPlane: plane, address: ADDRESS, instanceId: '2a', dataParallelSize: 1 });
    const published: unknown[] = [];
    const mine: EventChannelRecord[] = [];
    const load = await loads.openLoads(mine);
    const subscription = await plane.subscribe(SCOPE, 'kv_metrics', {
      event: ({ payload }) => published.push(payload),
    });
    for (const { instance_id, transport } of mine) subscription.connect(instance_id, transport);
    load.publish({ worker_id: '42', dp_rank: 0, kv_used_blocks: 5, active_prefill_tokens: 9, last_event_id: 3 });
    await waitUntil(() => published.length === 1, { what: 'a load' });
    expect(namesIn(published[0])).toEqual(namesIn(recorded('kv_metrics')));
    expect(published[0]).toMatchObject({ dp_rank: 0, kv_used_blocks: 5, active_prefill_tokens: null });
  });
});

describe("an answer to a router of Dynamo's that lost events", () => {
  function journalOf(count: number): RankJournal {
    const ranks = new RankTable();
    const rank = ranks.intern('2a', 0);
    const journal = new RankJournal({
      dpRank: 0,
      index: new BlockIndex({ ranks }),
      rank,
      workerId: '42',
      publisherId: 'p',
    });
    for (let at = 0; at < count; at++) journal.append(stored(0, 10 * at, 1));
    return journal;
  }

  async function ask(journal: RankJournal, body: object): Promise<{ outputs: EngineOutput[]; error?: ServeError }> {
    const outputs: EngineOutput[] = [];
    let error: ServeError | undefined;
    let isOver = false;
    const over = (): void => {
      isOver = true;
    };
    const call = {
      body: { worker_id: 42n, dp_rank: 0, start_event_id: null, end_event_id: null, ...body },
      stopped: new AbortController().signal,
      accept() {},
      output: (output: EngineOutput) => outputs.push(output),
      end: over,
      fail(failure: ServeError) {
        error = failure;
        over();
      },
    } as unknown as IncomingCall; // the members that a recovery uses
    new RecoveryService().serve(journal, new JoinedRecovery(call));
    await waitUntil(() => isOver, { what: 'the answer' });
    return { outputs, ...(error && { error }) };
  }

  function eventsOf(outputs: readonly EngineOutput[]): readonly unknown[] {
    return outputs.flatMap(({ body }) =>
      Object.values(body as object).flatMap((part: { events: unknown[] }) => part.events),
    );
  }

  it('is one item, with all blocks or with the events asked for', async () => {
    const whole = await ask(journalOf(40), {});
    expect(whole.outputs).toHaveLength(1);
    expect(whole.outputs).toMatchObject([{ body: { TreeDump: { last_event_id: 40 } } }]);
    expect(decodeRouterEvents(eventsOf(whole.outputs), (reason) => expect(reason).toBe('read'))).toHaveLength(40);
    const some = await ask(journalOf(40), { start_event_id: 38 });
    expect(some.outputs).toMatchObject([{ body: { Events: { last_event_id: 40 } } }]);
    expect(eventsOf(some.outputs)).toHaveLength(3);
  });

  it('says that there is nothing newer, or that the rank holds nothing', async () => {
    expect((await ask(journalOf(2), { start_event_id: 9 })).outputs).toEqual([
      { body: { TooNew: { requested_start: 9, requested_end: null, newest_available: 2 } } },
    ]);
    expect((await ask(journalOf(0), {})).outputs).toEqual([{ body: { TreeDump: { events: [], last_event_id: 0 } } }]);
  });

  it('is refused for a query with other ids', async () => {
    expect((await ask(journalOf(1), { start_event_id: 'x' })).error?.worker).toBe('InvalidArgument');
  });
});
