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
  /** In hex. */
  readonly workerId: string;
  readonly dpRank: number;
}

/** The state that the metrics show, read at every scrape. */
interface IndexerState {
  readonly models: number;
  readonly workers: number;
  /** Number of listeners by status. */
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
  /** Called once with the function that reads the state. */
  show(read: () => IndexerState): void;
}

export interface IndexerOptions {
  readonly openListener: OpenListener;
  readonly metrics: IndexerMetrics;
  readonly logger: Logger;
  /** Maximum number of distinct blocks of one model and group. */
  readonly blocksMax?: number | undefined;
  /** Memory limit of all indexes together. @default unbounded */
  readonly bytesMax?: number | undefined;
}

/** Maximum number of workers of one tree; each rank uses two sockets. */
const WORKERS_MAX = 20_000;

/** The state of the standalone indexer: one index for each model and routing group. */
export class StandaloneIndexer {
  readonly #options: IndexerOptions;
  /** Each has its own index. */
  readonly #trees = new Pools<ModelTree>();
  readonly #memory: IndexMemory;
  /** Duplicate stores counted by indexes that no longer exist. */
  #pastDuplicates = 0;

  constructor(options: IndexerOptions) {
    this.#options = options;
    const indexes = () => [...this.#trees].map(({ index }) => index);
    this.#memory = new IndexMemory(options.bytesMax ?? Number.POSITIVE_INFINITY, indexes);
    options.metrics.show(() => this.#state());
  }

  /**
   * @throws ServiceError 400 for an invalid endpoint, 409 if it is already registered or has another block size, 503 at
   * a bound
   */
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
      throw new ServiceError(409, `instance ${u64OfHex(workerId)} rank ${dpRank} is already registered`);
    }
    if (tree.listeners.workerCount >= WORKERS_MAX) throw new ServiceError(503, `more than ${WORKERS_MAX} workers`);
    tree.addRank(workerId, dpRank, registration);
  }

  /**
   * Removes the worker's ranks: without a group from every group, without a rank all of them. Returns false if there
   * were none.
   */
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

  /** @throws ServiceError 404 if no worker of that model and group was registered */
  treeOf(model: string, group: string): ModelTree {
    const tree = this.#trees.find(model, group);
    if (tree === undefined) throw new ServiceError(404, `no index for model ${model} in routing group ${group}`);
    return tree;
  }

  get trees(): Iterable<ModelTree> {
    return this.#trees;
  }

  /** Calls `change` for the rank in each tree where it is registered; returns whether a call returned true. */
  forRank(workerId: string, dpRank: number, change: (tree: ModelTree) => boolean): boolean {
    let isFound = false;
    for (const tree of this.#trees) if (tree.listeners.has(workerId, dpRank)) isFound = change(tree) || isFound;
    return isFound;
  }

  /** Yields the reply of `/dump` as pieces of JSON text. */
  dump(): Generator<string, void, void> {
    return dumpPools(this.#trees);
  }

  /** Loads a peer's dump, as `parseExactJson` returns it, and skips parts that it cannot read. */
  restore(dump: unknown): void {
    for (const [name, part] of Object.entries(asRecord(dump) ?? {})) {
      const colon = name.lastIndexOf(':');
      const { block_size: blockSize, events } = asRecord(part) ?? {};
      if (colon < 0 || !Number.isInteger(blockSize) || !Array.isArray(events)) continue;
      this.#openTree(name.slice(0, colon), name.slice(colon + 1), blockSize as number).restore(events);
    }
  }

  /** Runs one slice of the work that keeps the indexes small; call it from a timer. */
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
  /** Maximum number of distinct blocks. @default that of `BlockIndex` */
  readonly blocksMax?: number | undefined;
  /** Shared with the other trees. */
  readonly memory: IndexMemory;
}

/** Number of records of a dump that are decoded at a time. */
const DUMP_SLICE = 4096;

/** The index of one model and routing group in the standalone indexer, and the workers whose events it receives. */
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

  /** Removes the rank and its blocks. */
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

  /** @param local hashes of the prompt's blocks, each computed from its own tokens */
  matchLocal(local: Uint32Array): Readonly<Record<string, WorkerOverlap>> {
    return this.match({ local, sequence: borrowChain(local) });
  }

  /** Yields events that rebuild the index, as pieces of JSON text. */
  dump(): Generator<string, void, void> {
    return dumpEvents(this.index, this.#ranks);
  }

  /** Applies the events of another indexer's dump. */
  restore(events: readonly unknown[]): void {
    for (let from = 0; from < events.length; from += DUMP_SLICE) {
      const slice = events.slice(from, from + DUMP_SLICE);
      for (const { workerId, dpRank, change } of decodeRouterEvents(slice, () => {})) {
        this.#onApplied(change.kind, applyChange(this.index, this.#ranks.intern(workerId, dpRank), change));
      }
    }
  }
}

/** Yields events that rebuild an index, as pieces of JSON text with commas between them. */
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
      yield text; // empty if the slice found nothing: the writer takes one piece per turn
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
