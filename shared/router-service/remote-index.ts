import type { Overlaps, PrefixIndex, RankTable } from '../block-index/index.ts';
import type { Clock, Random } from '../clock/index.ts';
import type { Discovery, Watch } from '../discovery/index.ts';
import { askOnce, type RequestPlane, type Transport } from '../planes/index.ts';
import { RecordReader, type UnknownRecord, u64OfHex } from '../records/index.ts';
import {
  type RankId,
  type RoutableWorker,
  type RouteRequest,
  type Router,
  type WorkerPool,
  withChoose,
} from '../router/index.ts';
import { hashedPrompt } from '../scheduler/index.ts';
import type { MetricRegistry } from '../telemetry/index.ts';
import type { BlockHashes } from '../tokens/index.ts';
import type { ComponentScope } from '../worker-events/index.ts';
import { type ServingInstance, watchInstances } from './residents.ts';

/*
 * A block index in another process. Records are Dynamo's. 64-bit integers are written as decimal text, and read as
 * text, bigint or an exact number.
 */

/** Endpoints in the component of the workers whose blocks are indexed. */
export const INDEX_QUERY_ENDPOINT = 'kv_indexer_query';
export const INDEX_RECORD_ENDPOINT = 'kv_indexer_record_routing_decision';

/** A question which ranks hold the start of a prompt. */
interface IndexQuery {
  readonly model: string;
  /** Local hashes of its blocks, pairs of u32 halves. */
  readonly local: Uint32Array;
  /** Whether to leave out the tiers below the device. */
  readonly isDeviceOnly: boolean;
}

/** Number of blocks of a prompt that one rank holds. */
export interface RankBlocks extends RankId {
  readonly blocks: number;
}

/** Ranks that hold the start of a prompt. A lower tier continues where the one above it ends. */
interface IndexScores {
  readonly device: readonly RankBlocks[];
  readonly host: readonly RankBlocks[];
  readonly disk: readonly RankBlocks[];
}

/** A request that went to a rank, which holds its blocks from now on. */
interface RoutingRecord extends RankId {
  readonly model: string;
  readonly local: Uint32Array;
  readonly sequence: Uint32Array;
}

/** Answer of the index, or a refusal. */
type IndexAnswer<Value> = { readonly kind: 'ok'; readonly value: Value } | { readonly kind: 'refused' };

const read = new RecordReader((what) => new TypeError(what));

/** Bound of the blocks in one message. A prompt of 4 million tokens in blocks of 16 fits. */
const BLOCKS_MAX = 262_144;

function encodeIndexQuery({ model, local, isDeviceOnly }: IndexQuery): UnknownRecord {
  return { model_name: model, block_hashes: hashTexts(local), ...(isDeviceOnly && { device_only: true }) };
}

/** @throws TypeError for a record that is not a query, or has a hash that is not exact */
export function decodeIndexQuery(body: unknown): IndexQuery {
  const fields = read.record(body, 'message');
  return {
    model: read.text(fields.model_name, 'model_name'),
    local: read.u64Pairs(fields.block_hashes, 'block_hashes', BLOCKS_MAX),
    isDeviceOnly: fields.device_only === true,
  };
}

export function encodeScores({ device, host, disk }: IndexScores): UnknownRecord {
  const lower = [
    ['host_pinned', host],
    ['disk', disk],
  ] as const;
  return {
    TieredScores: {
      device: { scores: device.map(scoreOf), frequencies: [] },
      lower_tier: lower
        .filter(([, held]) => held.length > 0)
        .map(([tier, held]) => [tier, { hits: held.map(scoreOf) }]),
    },
  };
}

/** @throws TypeError for a record that is not an answer to a query */
function decodeScores(body: unknown): IndexAnswer<IndexScores> {
  const { TieredScores: scores, Error: reason } = read.record(body, 'message');
  if (typeof reason === 'string') return { kind: 'refused' };
  const { device, lower_tier: lower = [] } = read.record(scores, 'TieredScores');
  const host: RankBlocks[] = [];
  const disk: RankBlocks[] = [];
  for (const entry of read.list(lower, 'lower_tier')) {
    const [tier, held] = read.list(entry, 'lower_tier');
    // Tiers beyond the disk count as disk, as in the index itself.
    const into = tier === 'host_pinned' ? host : disk;
    for (const hit of read.list(read.record(held, 'lower_tier').hits, 'hits')) into.push(rankBlocksOf(hit));
  }
  const found = read.list(read.record(device, 'device').scores, 'scores').map(rankBlocksOf);
  return { kind: 'ok', value: { device: found, host, disk } };
}

function encodeRecord({ model, workerId, dpRank, local, sequence }: RoutingRecord): UnknownRecord {
  return {
    model_name: model,
    worker: workerOf(workerId, dpRank),
    local_hashes: hashTexts(local),
    sequence_hashes: hashTexts(sequence),
  };
}

/** @throws TypeError for a record that is not a decision, or has a hash that is not exact */
export function decodeRecord(body: unknown): RoutingRecord {
  const fields = read.record(body, 'message');
  const local = read.u64Pairs(fields.local_hashes, 'local_hashes', BLOCKS_MAX);
  const sequence = read.u64Pairs(fields.sequence_hashes, 'sequence_hashes', BLOCKS_MAX);
  if (local.length !== sequence.length)
    throw new TypeError('sequence_hashes and local_hashes must have the same length');
  return { model: read.text(fields.model_name, 'model_name'), ...rankOf(fields.worker), local, sequence };
}

/** Answer to a recorded decision. */
export const RECORDED = 'Recorded';

/** @throws TypeError for a record that is not an answer to a recorded decision */
function decodeRecorded(body: unknown): IndexAnswer<undefined> {
  if (body === RECORDED) return { kind: 'ok', value: undefined };
  read.text(read.record(body, 'message').Error, 'Error');
  return { kind: 'refused' };
}

/** Returns an answer that gives a reason instead of a result. */
export function encodeRefusal(reason: string): UnknownRecord {
  return { Error: reason };
}

function scoreOf({ workerId, dpRank, blocks }: RankBlocks): readonly unknown[] {
  return [workerOf(workerId, dpRank), blocks];
}

function rankBlocksOf(entry: unknown): RankBlocks {
  const [worker, blocks] = read.list(entry, 'score');
  return { ...rankOf(worker), blocks: read.wholeNumber(blocks, 'score') };
}

function workerOf(workerId: string, dpRank: number): UnknownRecord {
  return { worker_id: u64OfHex(workerId).toString(), dp_rank: dpRank };
}

function rankOf(worker: unknown): RankId {
  const { worker_id: id, dp_rank: dpRank } = read.record(worker, 'worker');
  return { workerId: read.u64(id, 'worker_id').toString(16), dpRank: read.wholeNumber(dpRank, 'dp_rank') };
}

function hashTexts(pairs: Uint32Array): readonly string[] {
  const view = new BigUint64Array(pairs.length >> 1);
  new Uint32Array(view.buffer).set(pairs); // Node's machines store u64 with the low half first
  return Array.from(view, String);
}

/** A process that serves the index of a component's workers. */
export interface IndexerAddress {
  readonly instanceId: string;
  readonly query: Transport;
  /** Endpoint for decisions; undefined if events fill the index. */
  readonly record: Transport | undefined;
}

interface RemoteIndexOptions {
  readonly plane: Pick<RequestPlane, 'call'>;
  readonly clock: Clock;
  readonly random: Pick<Random, 'uuid'>;
  readonly ranks: RankTable;
  readonly model: string;
  /** Returns the present indexers, in a stable order. */
  indexers(): readonly IndexerAddress[];
  /** Whether the index has only decisions, so that this process reports its own to it. */
  readonly isRecording: boolean;
  readonly observer: RemoteIndexObserver;
}

/** Metrics of an index in another process. */
export interface RemoteIndexObserver {
  /** Hears that a request was routed without knowledge of the caches. */
  queryFailed(): void;
  /** Hears that a decision was not recorded. */
  writeFailed(): void;
}

/** Deadline of a question: knowledge of the caches only saves some prefill. */
const QUERY_MS_MAX = 50;
/** Time for which an indexer that did not answer is not asked. */
const PAUSE_MS = 250;
const WRITE_MS_MAX = 2000;
/** Bound of the decisions that are being sent; further ones are not recorded. */
const WRITES_MAX = 1024;

/**
 * The index of a worker set in another process. The router asks it before it routes a request (`look`), and the
 * scheduler reads the answer in its own turn (`match`). Without an answer nothing counts as cached, and only load
 * decides: a request never fails because of the index.
 */
export class RemoteIndex implements PrefixIndex {
  readonly #options: RemoteIndexOptions;
  /** Answers for prompts whose requests are still here. */
  readonly #said = new WeakMap<BlockHashes, IndexScores>();
  readonly #pausedUntilMs = new Map<string, number>(); // by instance; pruned by each search
  #writes = 0;

  constructor(options: RemoteIndexOptions) {
    this.#options = options;
  }

  /** Asks for the cached blocks of a prompt. Resolves in any case within 50 ms, and at once if `signal` aborts. */
  async look(hashes: BlockHashes, signal: AbortSignal): Promise<void> {
    if (hashes.local.length === 0 || this.#said.has(hashes)) return;
    const { model, observer } = this.#options;
    const indexer = this.#find();
    const body = encodeIndexQuery({ model, local: hashes.local, isDeviceOnly: false });
    const answer =
      indexer === undefined ? undefined : await this.#ask(indexer.query, body, decodeScores, QUERY_MS_MAX, signal);
    if (signal.aborted) return;
    if (answer?.kind === 'ok') this.#said.set(hashes, answer.value);
    else observer.queryFailed();
    if (answer === undefined && indexer !== undefined) this.#pause(indexer);
  }

  match(hashes: BlockHashes, overlaps: Overlaps): void {
    const said = this.#said.get(hashes);
    if (said === undefined) return;
    this.#fill(overlaps, 'device', said.device);
    this.#fill(overlaps, 'host', said.host);
    this.#fill(overlaps, 'disk', said.disk);
  }

  decided(_requestId: string, rank: number, { local, sequence }: BlockHashes): void {
    const { ranks, model, isRecording, observer } = this.#options;
    const workerId = ranks.workerIdOf(rank);
    if (!isRecording || local.length === 0 || workerId === undefined) return;
    const record = this.#find()?.record;
    if (record === undefined || this.#writes >= WRITES_MAX) {
      observer.writeFailed();
      return;
    }
    this.#writes++;
    const body = encodeRecord({ model, workerId, dpRank: ranks.dpRankOf(rank), local, sequence });
    void this.#ask(record, body, decodeRecorded, WRITE_MS_MAX).then((answer) => {
      this.#writes--;
      if (answer?.kind !== 'ok') observer.writeFailed();
    });
  }

  removeRank(rank: number): void {
    this.#options.ranks.recycle(rank); // nothing in this index refers to ranks by number
  }

  #fill(overlaps: Overlaps, tier: 'device' | 'host' | 'disk', rows: readonly RankBlocks[]): void {
    for (const { workerId, dpRank, blocks } of rows) {
      const rank = this.#options.ranks.find(workerId, dpRank);
      if (rank === undefined) continue; // a worker that this process does not know
      overlaps.touch(rank);
      overlaps[tier][rank] = blocks;
    }
  }

  #find(): IndexerAddress | undefined {
    const nowMs = this.#options.clock.nowMs();
    for (const [instanceId, untilMs] of this.#pausedUntilMs) {
      if (untilMs <= nowMs) this.#pausedUntilMs.delete(instanceId);
    }
    return this.#options.indexers().find(({ instanceId }) => !this.#pausedUntilMs.has(instanceId));
  }

  #pause({ instanceId }: IndexerAddress): void {
    this.#pausedUntilMs.set(instanceId, this.#options.clock.nowMs() + PAUSE_MS);
  }

  /** Sends one question. Returns undefined if there is no valid answer in time. Never rejects. */
  async #ask<Value>(
    transport: Transport,
    body: unknown,
    decode: (body: unknown) => IndexAnswer<Value>,
    timeoutMs: number,
    signal?: AbortSignal,
  ): Promise<IndexAnswer<Value> | undefined> {
    const { plane, clock, random } = this.#options;
    const question = { id: random.uuid(), headers: {}, body };
    const answer = await askOnce(plane, transport, question, { clock, timeoutMs, signal });
    if (answer.kind === 'failed' || answer.output === undefined) return undefined;
    try {
      return decode(answer.output.body);
    } catch {
      return undefined;
    }
  }
}

/**
 * Returns `router` so that it asks an index in another process about a prompt before it routes the request.
 * @param indexOf returns the index of a worker set; undefined while the set is new
 */
export function askingRouter<Worker extends RoutableWorker>(
  router: Router<Worker>,
  indexOf: (pool: WorkerPool) => RemoteIndex | undefined,
): Router<Worker> {
  return withChoose(router, async (request, signal) => router.choose(await askIndex(request, indexOf, signal), signal));
}

/** Returns the request with the hashes of its blocks, after asking the index about them. */
export async function askIndex(
  request: RouteRequest,
  indexOf: (pool: WorkerPool) => RemoteIndex | undefined,
  signal: AbortSignal,
): Promise<RouteRequest> {
  const { pool } = request;
  const index = indexOf(pool);
  if (index === undefined) return request;
  const prompt = hashedPrompt(request);
  await index.look(prompt.hashes, signal);
  return { ...request, prompt };
}

/**
 * Follows the processes that serve the block index of a component, in the order of their ids, so that every router asks
 * the same one first.
 */
export function watchIndexers(
  discovery: Discovery,
  component: ComponentScope,
  onChange: (indexers: readonly IndexerAddress[]) => void,
  signal?: AbortSignal,
): Promise<Watch> {
  const onInstances = (instances: readonly ServingInstance[]): void =>
    onChange(
      instances.flatMap(({ instanceId, endpoints }) => {
        const { [INDEX_QUERY_ENDPOINT]: query, [INDEX_RECORD_ENDPOINT]: record } = endpoints;
        return query === undefined ? [] : [{ instanceId, query, record }];
      }),
    );
  return watchInstances(discovery, component, onInstances, signal);
}

/** Registers the metrics of a router with a remote index. @param routerId hex */
export function createRemoteIndexMetrics(registry: MetricRegistry, routerId: string): RemoteIndexObserver {
  const failures = (what: string, about: string) =>
    registry
      .counter(`dynamo_component_router_remote_indexer_${what}_failures_total`, about, 'router_id')
      .with(routerId);
  const queries = failures('query', 'Requests routed without an answer of the remote indexer.');
  const writes = failures('write', 'Routing decisions that the remote indexer did not take.');
  return { queryFailed: () => queries.add(), writeFailed: () => writes.add() };
}
