import type { EndpointRecord, EventChannelRecord, EventSourceRecord } from '../../discovery/index.ts';
import { assertNever } from '../../errors/index.ts';
import type { EventPlane, EventPublisher, EventScope, Transport } from '../../planes/index.ts';
import { dynamoRecoveryEndpoint } from '../../protocol/index.ts';
import {
  type ActiveLoadRecord,
  KV_EVENTS_TOPIC,
  LOAD_TOPIC,
  type RouterEventRecord,
} from '../../worker-events/index.ts';
import type { WorkerAddress } from '../options.ts';

interface DynamoEventsOptions {
  readonly eventPlane: EventPlane;
  readonly address: WorkerAddress;
  readonly instanceId: string;
  readonly dataParallelSize: number;
}

/** The publishing part of `EventPublisher`, which the reports of a worker use. */
export type Publishing = Pick<EventPublisher, 'publisherId' | 'publish'>;

/**
 * The events of a worker in the form of Dynamo's: one publisher for each rank, at the scope of the endpoint that
 * generates, and messages with plain blocks. Routers of Dynamo find them by a channel and a source for each publisher.
 */
export class DynamoEvents {
  readonly #options: DynamoEventsOptions;
  readonly #scope: EventScope;
  readonly #open: EventPublisher[] = [];
  /** Publishers of the ranks. */
  #ranks: readonly EventPublisher[] = [];

  constructor(options: DynamoEventsOptions) {
    this.#options = options;
    this.#scope = { kind: 'endpoint', ...options.address };
  }

  /**
   * Opens the publishers of KV events. It takes the records of all ranks, and sends each to the publisher of its rank.
   */
  async openKvEvents(channels: EventChannelRecord[]): Promise<Publishing> {
    const ranks: EventPublisher[] = [];
    for (let rank = 0; rank < this.#options.dataParallelSize; rank++) {
      ranks.push(await this.#openChannel(KV_EVENTS_TOPIC, channels));
    }
    this.#ranks = ranks;
    const [first] = ranks as [EventPublisher, ...EventPublisher[]]; // a worker has a rank
    return {
      publisherId: first.publisherId,
      publish: (records) => this.#publish(records as readonly RouterEventRecord[]),
    };
  }

  /** Opens the publisher of loads. */
  async openLoads(channels: EventChannelRecord[]): Promise<Publishing> {
    const publisher = await this.#openChannel(LOAD_TOPIC, channels);
    const { publisherId } = publisher;
    return { publisherId, publish: (load) => publisher.publish(toDynamoLoad(load as ActiveLoadRecord)) };
  }

  /**
   * Returns the records of the endpoints that answer for lost events, and of the sources that name them.
   * @param serve serves the endpoint of a rank, and returns its address
   */
  sources(serve: (endpoint: string, dpRank: number) => Transport): (EndpointRecord | EventSourceRecord)[] {
    const { address, instanceId: worker_id } = this.#options;
    const { namespace, component } = address;
    return this.#ranks.flatMap(({ publisherId }, dp_rank) => {
      const endpoint = dynamoRecoveryEndpoint(publisherId);
      const target: EndpointRecord = {
        type: 'Endpoint',
        namespace,
        component,
        endpoint,
        instance_id: worker_id,
        wire: 'dynamo',
        transport: serve(endpoint, dp_rank),
      };
      const source: EventSourceRecord = {
        type: 'EventSource',
        scope: this.#scope,
        topic: KV_EVENTS_TOPIC,
        instance_id: publisherId,
        wire: 'dynamo',
        worker_id,
        dp_rank,
        kv_state_endpoint: address,
        recovery_target: target,
      };
      return [target, source];
    });
  }

  async close(): Promise<void> {
    for (const publisher of this.#open) await publisher.close();
  }

  #publish(records: readonly RouterEventRecord[]): void {
    for (const [rank, publisher] of this.#ranks.entries()) {
      const own = records.filter(({ event }) => event.dp_rank === rank);
      if (own.length > 0) publisher.publish(own.map(toDynamoEvent));
    }
  }

  async #openChannel(topic: string, channels: EventChannelRecord[]): Promise<EventPublisher> {
    const publisher = await this.#options.eventPlane.publisher(this.#scope, topic);
    this.#open.push(publisher);
    const { publisherId: instance_id, transport } = publisher;
    channels.push({ type: 'EventChannel', scope: this.#scope, topic, instance_id, transport, wire: 'dynamo' });
    return publisher;
  }
}

/** Returns an event of a cache as routers of Dynamo read it. */
export function toDynamoEvent({
  worker_id,
  storage_tier,
  event,
}: RouterEventRecord): Readonly<Record<string, unknown>> {
  const { event_id, dp_rank, data } = event;
  return { worker_id: BigInt(worker_id), storage_tier, event: { event_id, data: dataOf(data), dp_rank } };
}

function dataOf(data: RouterEventRecord['event']['data']): unknown {
  if (data === 'cleared') return data;
  if ('removed' in data) return { removed: { block_hashes: u64sOf(data.removed.block_hashes) } };
  if (!('stored' in data)) return assertNever(data);
  const { stored } = data;
  if ('blocks' in stored) throw new TypeError('a worker writes its blocks in bytes');
  const hashes = u64sOf(stored.block_hashes);
  const tokens = u64sOf(stored.tokens_hashes);
  const [parent = null] = stored.parent_hash === null ? [] : u64sOf(stored.parent_hash);
  const blocks = hashes.map((block_hash, at) => ({ block_hash, tokens_hash: tokens[at], mm_extra_info: null }));
  return { stored: { parent_hash: parent, start_position: null, blocks } };
}

/** Returns the integers of little-endian bytes, or of decimal texts. */
function u64sOf(hashes: Uint8Array | readonly string[]): bigint[] {
  if (!(hashes instanceof Uint8Array)) return hashes.map(BigInt);
  const view = new DataView(hashes.buffer, hashes.byteOffset, hashes.byteLength);
  return Array.from({ length: hashes.length / 8 }, (_, at) => view.getBigUint64(8 * at, true));
}

/** Returns a load as routers of Dynamo read it. Only they know the other two amounts. */
function toDynamoLoad({ worker_id, dp_rank, kv_used_blocks }: ActiveLoadRecord): Readonly<Record<string, unknown>> {
  const unknownHere = { active_decode_blocks: null, active_prefill_tokens: null };
  return { worker_id: BigInt(worker_id), dp_rank, ...unknownHere, kv_used_blocks };
}
