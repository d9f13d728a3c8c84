import type { Discovery, EventChannelRecord, EventSourceRecord } from '../../../../shared/discovery/index.ts';
import type { EventPlane, EventPublisher, IncomingCall, PlaneServer } from '../../../../shared/planes/index.ts';
import { asRecord, u64OfHex } from '../../../../shared/records/index.ts';

/** Scope of the workers of Dynamo in tests. */
export const DYNAMO_SCOPE = { namespace: 'dynamo', component: 'backend', endpoint: 'generate' } as const;
const SCOPE = { kind: 'endpoint', ...DYNAMO_SCOPE } as const;

interface PublisherOptions {
  readonly workerId: string;
  readonly dpRank?: number;
  readonly eventPlane: EventPlane;
  readonly discovery: Discovery;
  readonly server: PlaneServer;
  /** Whether its source is not in discovery before `announce`: events may come first. @default false */
  readonly isLate?: boolean;
  /** Events that it keeps for routers that missed them. @default 8 */
  readonly ringMax?: number;
}

type PublisherRecords = readonly (EventChannelRecord | EventSourceRecord)[];

/**
 * A publisher of one rank of a worker of Dynamo: its events, its records in discovery and its recovery endpoint, in the
 * form of release 1.6.1. The test names blocks by number; block `n` has the hash `n + 2^63` and the contents `n`.
 */
export class ScriptedPublisher {
  readonly #options: PublisherOptions;
  readonly #publisher: EventPublisher;
  readonly #records: PublisherRecords;
  readonly #held = new Map<number, number | undefined>(); // block to its parent, parents first
  readonly #ring: { readonly id: number; readonly record: unknown }[] = [];
  #lastId = 0;
  /** Queries that it has answered: the first event that they asked for, or undefined for all blocks. */
  readonly queries: (number | undefined)[] = [];
  /** Called when it has made an answer that is still on its way. */
  onAnswer: (() => void) | undefined;
  /** Items that it answers instead of its events. */
  answers: readonly unknown[] | undefined;

  private constructor(options: PublisherOptions, publisher: EventPublisher, records: PublisherRecords) {
    this.#options = options;
    this.#publisher = publisher;
    this.#records = records;
  }

  /** Starts a publisher, and writes its records. */
  static async start(options: PublisherOptions): Promise<ScriptedPublisher> {
    const { workerId, dpRank = 0, eventPlane, discovery, server } = options;
    const publisher = await eventPlane.publisher(SCOPE, 'kv-events');
    const { publisherId, transport } = publisher;
    const endpoint = `worker_kv_query_source_${publisherId}`;
    const path = `${workerId}/${DYNAMO_SCOPE.namespace}/${DYNAMO_SCOPE.component}/${endpoint}`;
    const target = server.handle(path, (call) => scripted.#answer(call));
    const common = { scope: SCOPE, topic: 'kv-events', instance_id: publisherId, wire: 'dynamo' } as const;
    const recovery = { type: 'Endpoint', ...DYNAMO_SCOPE, endpoint, instance_id: workerId, wire: 'dynamo' } as const;
    const records: PublisherRecords = [
      { type: 'EventChannel', ...common, transport },
      {
        type: 'EventSource',
        ...{ ...common, worker_id: workerId, dp_rank: dpRank, kv_state_endpoint: DYNAMO_SCOPE },
        recovery_target: { ...recovery, transport: target },
      },
    ];
    const scripted: ScriptedPublisher = new ScriptedPublisher(options, publisher, records);
    await discovery.put(records[0]!);
    if (options.isLate !== true) await scripted.announce();
    return scripted;
  }

  /** Writes the record that says which rank it reports on, and where it answers. */
  async announce(): Promise<void> {
    await this.#options.discovery.put(this.#records[1]!);
  }

  get publisherId(): string {
    return this.#publisher.publisherId;
  }

  /** Numbers of the blocks that the rank holds, ascending. */
  get blocks(): number[] {
    return [...this.#held.keys()].sort((a, b) => a - b);
  }

  /** Whether the rank holds the block, and no block after it. */
  isLeaf(block: number): boolean {
    return this.#held.has(block) && ![...this.#held.values()].includes(block);
  }

  stored(parent: number | undefined, ...blocks: readonly number[]): void {
    let above = parent;
    for (const block of blocks) {
      if (!this.#held.has(block)) this.#held.set(block, above);
      above = block;
    }
    this.#publish({ stored: { ...storedBody(parent, blocks), start_position: null } });
  }

  removed(...blocks: readonly number[]): void {
    for (const block of blocks) this.#held.delete(block);
    this.#publish({ removed: { block_hashes: blocks.map(hashOf) } });
  }

  cleared(): void {
    this.#held.clear();
    this.#publish('cleared');
  }

  /** Publishes a message of any kind. */
  publishRaw(payload: unknown): void {
    this.#publisher.publish(payload);
  }

  /** Takes its records out of discovery. */
  async withdraw(): Promise<void> {
    for (const record of this.#records) await this.#options.discovery.remove(record);
    await this.#publisher.close();
  }

  #publish(data: unknown): void {
    const record = this.#recordOf(++this.#lastId, data);
    this.#ring.push({ id: this.#lastId, record });
    if (this.#ring.length > (this.#options.ringMax ?? 8)) this.#ring.shift();
    this.#publisher.publish([record]);
  }

  #recordOf(eventId: number, data: unknown): unknown {
    const { workerId, dpRank = 0 } = this.#options;
    const event = { event_id: eventId, data, dp_rank: dpRank };
    return { worker_id: u64OfHex(workerId), storage_tier: 'device', residency_domain: 'worker', event };
  }

  #answer(call: IncomingCall): void {
    const { workerId, dpRank = 0 } = this.#options;
    const { worker_id, dp_rank, start_event_id: start } = asRecord(call.body) ?? {};
    const isMine = BigInt(worker_id as bigint) === u64OfHex(workerId) && dp_rank === dpRank;
    this.queries.push(typeof start === 'number' ? start : undefined);
    const answer = isMine ? this.#answerFrom(start) : { Error: 'worker_id mismatch' };
    for (const body of this.answers ?? [answer]) call.output({ body });
    this.onAnswer?.();
    call.end();
  }

  #answerFrom(start: unknown): unknown {
    const last_event_id = this.#lastId;
    if (typeof start === 'number' && start > last_event_id)
      return { TooNew: { requested_start: start, requested_end: null, newest_available: last_event_id } };
    const first = this.#ring[0]?.id ?? Number.POSITIVE_INFINITY;
    if (typeof start === 'number' && start >= first) {
      const events = this.#ring.filter(({ id }) => id >= start).map(({ record }) => record);
      return { Events: { events, last_event_id } };
    }
    const events = [...this.#held].map(([block, parent], at) =>
      this.#recordOf(at, { stored: { ...storedBody(parent, [block]), start_position: null } }),
    );
    return { TreeDump: { events, last_event_id } };
  }
}

function hashOf(block: number): bigint {
  return BigInt(block) + 2n ** 63n;
}

function storedBody(parent: number | undefined, blocks: readonly number[]) {
  return {
    parent_hash: parent === undefined ? null : hashOf(parent),
    blocks: blocks.map((block) => ({ block_hash: hashOf(block), tokens_hash: BigInt(block), mm_extra_info: null })),
  };
}
