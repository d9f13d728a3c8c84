import { turnOfItsOwn } from '../concurrency/index.ts';
import type { DumpSlice, HashPair, StoredRun } from './types.ts';

/** A prefix that prompts of a rank have in common. */
export interface SharedPrefix {
  /** Hash of its last block as the engine names it, hex; nothing of the prompt can be read from it. */
  readonly hash: string;
  /** Blocks from the start of the prompt to its end. */
  readonly depth: number;
  /** Cached blocks that continue it. */
  readonly below: number;
  /** Different ways in which cached prompts continue; 1 = nothing continues it, and it is one whole prompt. */
  readonly branches: number;
}

/** Summary of what a rank has cached. */
export interface CacheSummary {
  /** Blocks by tier; disks include external stores. */
  readonly device: number;
  readonly host: number;
  readonly disk: number;
  /** Prefixes on the device with the most branches, then the most blocks: at most 10. */
  readonly prefixes: readonly SharedPrefix[];
  /** Whether everything was looked at; otherwise the numbers are those of the first 262,144 blocks. */
  readonly isWhole: boolean;
}

const PREFIXES_MAX = 10;
/** Blocks of one rank that are looked at: as many as an engine with 4 million tokens of cache has. */
const BLOCKS_MAX = 262_144;

/** Blocks without a branch between them. */
interface Chain {
  readonly hash: string;
  readonly depth: number;
  readonly parent: Chain | undefined;
  children: number;
  below: number;
  branches: number;
}

/**
 * Summarizes the holdings of a rank, in slices of less than 1 ms of which each has a turn of the event loop. Events may
 * change the holdings meanwhile. Rejects with the signal's reason.
 */
export async function summarizeCache(slices: Iterable<DumpSlice>, signal: AbortSignal): Promise<CacheSummary> {
  const tree = new ChainTree();
  const counts = { device: 0, host: 0, disk: 0 };
  let isWhole = true;
  for (const { runs } of slices) {
    for (const run of runs) {
      const blocks = run.blockHashes.length >> 1;
      if (run.tier === 'device') {
        counts.device += blocks;
        tree.add(run);
      } else counts[run.tier === 'host_pinned' ? 'host' : 'disk'] += blocks;
    }
    isWhole = counts.device + counts.host + counts.disk <= BLOCKS_MAX;
    if (!isWhole) break;
    await turnOfItsOwn();
    signal.throwIfAborted();
  }
  return { ...counts, prefixes: tree.shared(PREFIXES_MAX), isWhole };
}

/** Chains of blocks, each below the chain that it continues. */
class ChainTree {
  readonly #chains: Chain[] = []; // parents before children
  /** Chains by the hash of their last block. */
  readonly #byHash = new Map<string, Chain>();

  add({ parent: parentHash, blockHashes }: StoredRun): void {
    const length = blockHashes.length >> 1;
    const hash = hexOf([blockHashes.at(-2) ?? 0, blockHashes.at(-1) ?? 0]);
    const parent = parentHash === undefined ? undefined : this.#byHash.get(hexOf(parentHash));
    const chain = { hash, depth: (parent?.depth ?? 0) + length, parent, children: 0, below: 0, branches: 0 };
    if (parent !== undefined) parent.children++;
    this.#chains.push(chain);
    this.#byHash.set(hash, chain);
  }

  /** Returns the prefixes with the most branches. */
  shared(most: number): readonly SharedPrefix[] {
    for (const chain of [...this.#chains].reverse()) {
      if (chain.children === 0) chain.branches = 1;
      if (chain.parent === undefined) continue;
      chain.parent.branches += chain.branches;
      chain.parent.below += chain.below + chain.depth - chain.parent.depth;
    }
    return this.#chains
      .filter(({ children }) => children !== 1) // the chain below it has the same branches
      .sort((a, b) => b.branches - a.branches || b.depth + b.below - a.depth - a.below)
      .slice(0, most)
      .map(({ hash, depth, below, branches }) => ({ hash, depth, below, branches }));
  }
}

function hexOf([low, high]: HashPair): string {
  return `${(high >>> 0).toString(16).padStart(8, '0')}${(low >>> 0).toString(16).padStart(8, '0')}`;
}
