import { asRecord, u64OfHex } from '../../records/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { IndexMemory } from '../block-index/index.ts';
import type { IndexerMetrics, IndexerState } from './indexer-metrics.ts';
import { ModelTree } from './model-tree.ts';
import { isConnectable, type ListenSource, type OpenListener } from './rank-listeners.ts';
import { ServiceError } from './service-error.ts';

/** One rank of one worker, as it registers. */
export interface IndexerRegistration extends ListenSource {
  readonly model: string;
  readonly group: string;
  /** Hex. */
  readonly workerId: string;
  readonly dpRank: number;
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

/** Pairs of model and group: each has an index of its own. */
const TREES_MAX = 1024;
/** Workers of one tree; each rank holds two sockets. */
const WORKERS_MAX = 20_000;

/** The state of the standalone indexer: an index for each model and routing group. */
export class StandaloneIndexer {
  readonly #options: IndexerOptions;
  readonly #trees = new Map<string, ModelTree>();
  readonly #memory: IndexMemory;
  /** Blocks stored twice in indexes that are gone. */
  #pastDuplicates = 0;

  constructor(options: IndexerOptions) {
    this.#options = options;
    const indexes = () => [...this.#trees.values()].map(({ index }) => index);
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
    for (const [key, tree] of this.#trees) {
      if (tree.model !== model || (group !== undefined && tree.group !== group)) continue;
      const leaving = tree.listeners.of(workerId).filter((rank) => dpRank === undefined || rank.dpRank === dpRank);
      if (leaving.length === 0) continue;
      for (const rank of leaving) tree.removeRank(workerId, rank.dpRank);
      if (tree.listeners.workerCount === 0) this.#dropTree(key, tree);
      isFound = true;
    }
    return isFound;
  }

  /** @throws ServiceError 404 when no worker of that model and group was registered */
  treeOf(model: string, group: string): ModelTree {
    const tree = this.#trees.get(keyOf(model, group));
    if (tree === undefined) throw new ServiceError(404, `no index for model ${model} in routing group ${group}`);
    return tree;
  }

  get trees(): Iterable<ModelTree> {
    return this.#trees.values();
  }

  /** Calls `change` for that rank wherever it is registered; whether it was anywhere. */
  forRank(workerId: string, dpRank: number, change: (tree: ModelTree) => boolean): boolean {
    let isFound = false;
    for (const tree of this.#trees.values())
      if (tree.listeners.has(workerId, dpRank)) isFound = change(tree) || isFound;
    return isFound;
  }

  /** `/dump` as pieces of JSON text. */
  *dump(): Generator<string, void, void> {
    let isFirst = true;
    for (const tree of this.#trees.values()) {
      const name = JSON.stringify(`${tree.model}:${tree.group}`);
      yield `${isFirst ? '{' : ','}${name}:{"block_size":${tree.blockSizeTokens},"events":[`;
      yield* tree.dump();
      yield ']}';
      isFirst = false;
    }
    yield isFirst ? '{}' : '}';
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
    for (const { index } of this.#trees.values()) index.housekeep();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#trees.values()].map(({ listeners }) => listeners.close()));
    this.#trees.clear();
  }

  #openTree(model: string, group: string, blockSizeTokens: number): ModelTree {
    const known = this.#trees.get(keyOf(model, group));
    if (known !== undefined) {
      if (known.blockSizeTokens === blockSizeTokens) return known;
      const place = `model ${model} in routing group ${group}`;
      throw new ServiceError(409, `${place} has block size ${known.blockSizeTokens}, not ${blockSizeTokens}`);
    }
    if (this.#trees.size >= TREES_MAX) throw new ServiceError(503, `more than ${TREES_MAX} models and groups`);
    const { openListener, logger, blocksMax, metrics } = this.#options;
    const counting = { onApplied: metrics.applied, onEvicted: (blocks: number) => metrics.evicted(blocks) };
    const bounds = { blocksMax, memory: this.#memory };
    const tree = new ModelTree({ model, group, blockSizeTokens, openListener, logger, ...bounds, ...counting });
    this.#trees.set(keyOf(model, group), tree);
    return tree;
  }

  #dropTree(key: string, tree: ModelTree): void {
    this.#pastDuplicates += tree.index.counters.duplicateBlocks;
    this.#trees.delete(key);
  }

  #state(): IndexerState {
    const listeners = new Map<string, number>();
    const workers = new Set<string>();
    let duplicateBlocks = this.#pastDuplicates;
    let indexBlocks = 0;
    let indexBytes = 0;
    for (const tree of this.#trees.values()) {
      duplicateBlocks += tree.index.counters.duplicateBlocks;
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

function keyOf(model: string, group: string): string {
  return JSON.stringify([model, group]);
}
