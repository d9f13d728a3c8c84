import { BlockIndex, type HashPair, IndexMemory, Overlaps, RankTable, type StoredRun } from '../block-index/index.ts';
import { asRecord, u64OfHex } from '../records/index.ts';
import type { Logger, MetricRegistry } from '../telemetry/index.ts';
import { type BlockHashes, borrowChain } from '../tokens/index.ts';
import { applyChange, decodeRouterEvents, indexSink, type OnApplied } from '../worker-events/index.ts';
import { ServiceError, writeExactJson } from './body-fields.ts';
import { dumpPools, overlapsByWorker, Pools, type WorkerOverlap } from './pools.ts';
import { isConnectable, type ListenSource, type OpenListener, RankListeners } from './rank-listeners.ts';

/** One rank of one worker, as it registers. */
export interface IndexerRegistration extends ListenSource {
  readonly model: string;
  readonly group: string;
  /** Hex. */
  readonly workerId: string;
  readonly dpRank: number;
}

/** What the metrics show of the indexer's state, asked at every scrape. */
interface IndexerState {
  readonly models: number;
  readonly workers: number;
  /** Listeners by their status. */
  readonly listeners: ReadonlyMap<string, number>;
  readonly duplicateBlocks: number;
  readonly indexBlocks: number;
  readonly indexBytes: number;
}

export interface IndexerMetrics {
  readonly registry: MetricRegistry;
  answered(path: string, method: string, status: number, elapsedMs: number): void;
  readonly applied: OnApplied;
  evicted(blocks: number): void;
  /** Called once by who knows the state. */
  show(read: () => IndexerState): void;
}

export interface IndexerOptions {
  readonly openListener: OpenListener;
  readonly metrics: IndexerMetrics;
  readonly logger: Logger;
  /** Most distinct blocks of one model and group. */
  readonly blocksMax?: number | undefined;
  /** Memory of all indexes together. @default unbounded */
  readonly bytesMax?: number | undefined;
}

/** Workers of one tree; each rank holds two sockets. */
const WORKERS_MAX = 20_000;

/** The state of the standalone indexer: an index for each model and routing group. */
export class StandaloneIndexer {
  readonly #options: IndexerOptions;
  /** Each has an index of its own. */
  readonly #trees = new Pools<ModelTree>();
  readonly #memory: IndexMemory;
  /** Blocks stored twice in indexes that are gone. */
  #pastDuplicates = 0;

  constructor(options: IndexerOptions) {
    this.#options = options;
    const indexes = () => [...this.#trees].map(({ index }) => index);
    this.#memory = new IndexMemory(options.bytesMax ?? Number.POSITIVE_INFINITY, indexes);
    options.metrics.show(() => this.#state());
  }

  /** @throws ServiceError 400 for an endpoint, 409 for what is there already in another way, 503 at a bound */
  register(registration: IndexerRegistration): void {
    const { model, group, workerId, dpRank, endpoint, replayEndpoint, blockSizeTokens } = registration;
    if (!isConnectable(endpoint))
      throw new ServiceError(400, `endpoint ${endpoint} is not tcp://host:port or ipc://path`);
    if (replayEndpoint !== undefined && !isConnectable(replayEndpoint)) {
      throw new ServiceError(400, `replay_endpoint ${replayEndpoint} is not tcp://host:port or ipc://path`);
    }
    if (blockSizeTokens < 1) throw new ServiceError(400, 'block_size must be at least 1');
    const tree = this.#openTree(model, group, blockSizeTokens);
    if (tree.listeners.has(workerId, dpRank)) {
      throw new ServiceError(409, `instance ${u64OfHex(workerId)} rank ${dpRank} is registered already`);
    }
    if (tree.listeners.workerCount >= WORKERS_MAX) throw new ServiceError(503, `more than ${WORKERS_MAX} workers`);
    tree.addRank(workerId, dpRank, registration);
  }

  /** Without a group those of every group, without a rank every rank. False when there was nothing. */
  unregister(model: string, workerId: string, group?: string, dpRank?: number): boolean {
    let isFound = false;
    for (const tree of this.#trees) {
      if (tree.model !== model || (group !== undefined && tree.group !== group)) continue;
      const leaving = tree.listeners.of(workerId).filter((rank) => dpRank === undefined || rank.dpRank === dpRank);
      if (leaving.length === 0) continue;
      for (const rank of leaving) tree.removeRank(workerId, rank.dpRank);
      if (tree.listeners.workerCount === 0) this.#dropTree(tree);
      isFound = true;
    }
    return isFound;
  }

  /** @throws ServiceError 404 when no worker of that model and group was registered */
  treeOf(model: string, group: string): ModelTree {
    const tree = this.#trees.find(model, group);
    if (tree === undefined) throw new ServiceError(404, `no index for model ${model} in routing group ${group}`);
    return tree;
  }

  get trees(): Iterable<ModelTree> {
    return this.#trees;
  }

  /** Calls `change` for that rank wherever it is registered; whether it was anywhere. */
  forRank(workerId: string, dpRank: number, change: (tree: ModelTree) => boolean): boolean {
    let isFound = false;
    for (const tree of this.#trees) if (tree.listeners.has(workerId, dpRank)) isFound = change(tree) || isFound;
    return isFound;
  }

  /** `/dump` as pieces of JSON text. */
  dump(): Generator<string, void, void> {
    return dumpPools(this.#trees);
  }

  /** Takes over a peer's dump, as `parseExactJson` gives it. What cannot be read is left out. */
  restore(dump: unknown): void {
    for (const [name, part] of Object.entries(asRecord(dump) ?? {})) {
      const colon = name.lastIndexOf(':');
      const { block_size: blockSize, events } = asRecord(part) ?? {};
      if (colon < 0 || !Number.isInteger(blockSize) || !Array.isArray(events)) continue;
      this.#openTree(name.slice(0, colon), name.slice(colon + 1), blockSize as number).restore(events);
    }
  }

  /** A slice of the work that keeps the indexes small; call it from a timer. */
  housekeep(): void {
    for (const { index } of this.#trees) index.housekeep();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#trees].map(({ listeners }) => listeners.close()));
    this.#trees.clear();
  }

  #openTree(model: string, group: string, blockSizeTokens: number): ModelTree {
    const known = this.#trees.findWith(model, group, blockSizeTokens);
    if (known !== undefined) return known;
    this.#trees.requireRoom();
    const { openListener, logger, blocksMax, metrics } = this.#options;
    const counting = { onApplied: metrics.applied, onEvicted: (blocks: number) => metrics.evicted(blocks) };
    const bounds = { blocksMax, memory: this.#memory };
    return this.#trees.add(
      new ModelTree({ model, group, blockSizeTokens, openListener, logger, ...bounds, ...counting }),
    );
  }

  #dropTree(tree: ModelTree): void {
    this.#pastDuplicates += tree.index.duplicateBlocks;
    this.#trees.delete(tree);
  }

  #state(): IndexerState {
    const listeners = new Map<string, number>();
    const workers = new Set<string>();
    let duplicateBlocks = this.#pastDuplicates;
    let indexBlocks = 0;
    let indexBytes = 0;
    for (const tree of this.#trees) {
      duplicateBlocks += tree.index.duplicateBlocks;
      indexBlocks += tree.index.blockCount;
      indexBytes += tree.index.bytes;
      for (const workerId of tree.listeners.workerIds) {
        workers.add(workerId);
        for (const { status } of tree.listeners.of(workerId)) listeners.set(status, (listeners.get(status) ?? 0) + 1);
      }
    }
    return { models: this.#trees.size, workers: workers.size, listeners, duplicateBlocks, indexBlocks, indexBytes };
  }
}

export interface ModelTreeOptions {
  readonly model: string;
  readonly group: string;
  readonly blockSizeTokens: number;
  readonly openListener: OpenListener;
  readonly logger: Logger;
  readonly onApplied: OnApplied;
  readonly onEvicted: (blocks: number) => void;
  /** Most distinct blocks. @default as `BlockIndex` */
  readonly blocksMax?: number | undefined;
  /** Shared with the other trees. */
  readonly memory: IndexMemory;
}

/** Records of a dump that are decoded at a time. */
const DUMP_SLICE = 4096;

/** The index of one model and routing group in the standalone indexer, and the workers that feed it. */
export class ModelTree {
  readonly model: string;
  readonly group: string;
  readonly blockSizeTokens: number;
  readonly listeners: RankListeners;
  readonly index: BlockIndex;
  readonly #ranks = new RankTable();
  readonly #overlaps = new Overlaps(0);
  readonly #onApplied: OnApplied;

  constructor({ model, group, blockSizeTokens, openListener, logger, onApplied, ...options }: ModelTreeOptions) {
    this.model = model;
    this.group = group;
    this.blockSizeTokens = blockSizeTokens;
    const { blocksMax, memory, onEvicted } = options;
    const ranks = this.#ranks;
    const bounds = { onEvicted, ...(blocksMax === undefined ? {} : { blocksMax }) };
    this.index = memory.bound((bytesMax) => new BlockIndex({ ranks, bytesMax, ...bounds }));
    this.#onApplied = onApplied;
    this.listeners = new RankListeners(openListener, indexSink(this.index, ranks, onApplied), logger);
  }

  addRank(workerId: string, dpRank: number, source: ListenSource): void {
    this.#ranks.intern(workerId, dpRank);
    this.listeners.add(workerId, dpRank, source);
  }

  /** Forgets the rank and what it holds. */
  removeRank(workerId: string, dpRank: number): void {
    this.listeners.remove(workerId, dpRank);
    const rank = this.#ranks.find(workerId, dpRank);
    if (rank === undefined) return;
    this.#ranks.drop(rank);
    this.index.removeRank(rank);
  }

  match(hashes: BlockHashes): Readonly<Record<string, WorkerOverlap>> {
    this.index.match(hashes, this.#overlaps);
    return overlapsByWorker(this.#overlaps, this.#ranks, this.blockSizeTokens);
  }

  /** @param local hashes of the prompt's blocks, each by its own tokens */
  matchLocal(local: Uint32Array): Readonly<Record<string, WorkerOverlap>> {
    return this.match({ local, sequence: borrowChain(local) });
  }

  /** Events that build the index up again, as pieces of JSON text. */
  dump(): Generator<string, void, void> {
    return dumpEvents(this.index, this.#ranks);
  }

  /** Takes over the events of another indexer's dump. */
  restore(events: readonly unknown[]): void {
    for (let from = 0; from < events.length; from += DUMP_SLICE) {
      const slice = events.slice(from, from + DUMP_SLICE);
      for (const { workerId, dpRank, change } of decodeRouterEvents(slice, () => {})) {
        this.#onApplied(change.kind, applyChange(this.index, this.#ranks.intern(workerId, dpRank), change));
      }
    }
  }
}

/** Events that build an index up again, as pieces of JSON text with commas between. */
export function* dumpEvents(index: BlockIndex, ranks: RankTable): Generator<string, void, void> {
  let eventId = 0;
  for (let rank = 0; rank < ranks.capacity; rank++) {
    const workerId = ranks.workerIdOf(rank);
    if (workerId === undefined) continue;
    const dpRank = ranks.dpRankOf(rank);
    for (const { runs } of index.dump(rank)) {
      let text = '';
      for (const run of runs) {
        const event = {
          worker_id: u64OfHex(workerId),
          storage_tier: run.tier,
          residency_domain: 'worker',
          event: { event_id: eventId, data: { stored: storedJson(run) }, dp_rank: dpRank },
        };
        text += `${eventId === 0 ? '' : ','}${writeExactJson(event)}`;
        eventId++;
      }
      yield text; // empty where a slice found nothing: whoever writes takes one a turn
    }
  }
}

function storedJson({ parent, blockHashes, tokensHashes }: StoredRun): unknown {
  const blocks = Array.from({ length: blockHashes.length / 2 }, (_, at) => ({
    block_hash: hashAt(blockHashes, at),
    tokens_hash: hashAt(tokensHashes, at),
    mm_extra_info: null,
  }));
  return { parent_hash: parent === undefined ? null : hashOf(parent), start_position: null, blocks };
}

function hashAt(pairs: Uint32Array, at: number): bigint {
  return hashOf([pairs[2 * at]!, pairs[2 * at + 1]!]);
}

function hashOf([low, high]: HashPair): bigint {
  return (BigInt(high) << 32n) | BigInt(low);
}
