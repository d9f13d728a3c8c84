import { u64OfHex } from '../../records/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { type BlockHashes, borrowChain } from '../../tokens/index.ts';
import {
  type BlockIndex,
  createBlockIndex,
  type HashPair,
  type IndexMemory,
  type StoredRun,
} from '../block-index/index.ts';
import { writeExactJson } from '../exact-json.ts';
import { applyChange, decodeRouterEvents, indexSink, type OnApplied } from '../feed/index.ts';
import { Overlaps } from '../scheduler/prefix-index.ts';
import { RankTable } from '../scheduler/ranks.ts';
import { overlapsByWorker, type WorkerOverlap } from './overlap-tokens.ts';
import { type ListenSource, type OpenListener, RankListeners } from './rank-listeners.ts';

export interface ModelTreeOptions {
  readonly model: string;
  readonly group: string;
  readonly blockSizeTokens: number;
  readonly openListener: OpenListener;
  readonly logger: Logger;
  readonly onApplied: OnApplied;
  readonly onEvicted: (blocks: number) => void;
  /** Most distinct blocks. @default as `createBlockIndex` */
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
    this.index = memory.bound((bytesMax) => createBlockIndex({ ranks, bytesMax, ...bounds }));
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
