import type { EnginePass, KvEvent } from '../types.ts';
import type { BlockListener } from './block-pool.ts';
import { EngineJournal } from './kv-publisher/engine-journal.ts';
import { KvPublisher } from './kv-publisher/kv-publisher.ts';
import type { KvStreamOptions, MockEngineDeps, MockSettings } from './options.ts';
import { PassLoop } from './pass-loop.ts';
import { Scheduler } from './scheduler.ts';
import type { BlockNames } from './sequence.ts';

/** One data-parallel rank of a live mock engine. */
export interface Rank {
  readonly scheduler: Scheduler;
  readonly loop: PassLoop;
  /** Tells what happened to the cache in vLLM's format, where the engine is to. */
  readonly publisher: KvPublisher | undefined;
  /** Tells what happened to the cache since the last call. */
  reportEvents(): void;
}

export function createRank(
  dpRank: number,
  { kvStream, scheduler: options }: MockSettings,
  { clock, defer = setImmediate }: MockEngineDeps,
  onKvEvents: (events: readonly KvEvent[]) => void,
  onPass: () => ((pass: EnginePass) => void) | undefined = () => undefined,
): Rank {
  const journal = new KvJournal(dpRank);
  const engineJournal = kvStream && new EngineJournal(options.blockSizeTokens);
  const publisher = kvStream && new KvPublisher({ ...ofRank(kvStream, dpRank), dpRank, clock });
  const scheduler = new Scheduler(options, engineJournal === undefined ? journal : both(journal, engineJournal));
  const reportEvents = (): void => {
    const events = journal.drain();
    if (events.length > 0) onKvEvents(events);
    if (engineJournal !== undefined) publisher?.publish(engineJournal.drain());
  };
  const endPass = (passMs: number): void => {
    reportEvents();
    onPass()?.(passOf(dpRank, scheduler, passMs));
  };
  return { scheduler, publisher, reportEvents, loop: new PassLoop(scheduler, clock, defer, endPass) };
}

function passOf(dpRank: number, { work, waitingCount, waitingTokens }: Scheduler, passMs: number): EnginePass {
  return {
    dpRank,
    wallTimeS: passMs / 1000,
    prefillRequests: work.prefills,
    prefillTokens: work.prefillEnd - work.prefillStart,
    prefillKvTokens: work.prefillStart,
    decodeRequests: work.decodes,
    decodeKvTokens: work.decodeContext,
    queuedPrefillRequests: waitingCount,
    queuedPrefillTokens: waitingTokens,
  };
}

function ofRank({ host, port, replayPort }: KvStreamOptions, dpRank: number): KvStreamOptions {
  const shifted = (base: number): number => (base === 0 ? 0 : base + dpRank);
  return { host, port: shifted(port), replayPort: replayPort === undefined ? undefined : shifted(replayPort) };
}

function both(one: BlockListener, other: BlockListener): BlockListener {
  return {
    stored(names, index) {
      one.stored(names, index);
      other.stored(names, index);
    },
    removed(low, high) {
      one.removed(low, high);
      other.removed(low, high);
    },
    cleared() {
      one.cleared?.();
      other.cleared?.();
    },
  };
}

/** A growing list of u32 values that is cut into arrays of its own. */
class Words {
  #words = new Uint32Array(64);
  #count = 0;

  push(low: number, high: number): void {
    if (this.#count + 2 > this.#words.length) {
      const larger = new Uint32Array(this.#words.length * 2);
      larger.set(this.#words);
      this.#words = larger;
    }
    this.#words[this.#count++] = low;
    this.#words[this.#count++] = high;
  }

  cut(): Uint32Array {
    const words = this.#words.slice(0, this.#count);
    this.#count = 0;
    return words;
  }
}

/**
 * Collects the block changes of one pass as events. Blocks of one sequence stored one after the other become one event, and
 * so do removals in a row. Bounded by the blocks one pass can touch.
 */
export class KvJournal implements BlockListener {
  readonly #dpRank: number;
  #events: KvEvent[] = [];
  #open: 'none' | 'stored' | 'removed' = 'none';
  #parent: readonly [number, number] | undefined;
  #names: BlockNames | undefined;
  #nextIndex = 0;
  readonly #hashes = new Words();
  readonly #tokensHashes = new Words();

  constructor(dpRank: number) {
    this.#dpRank = dpRank;
  }

  stored(names: BlockNames, index: number): void {
    if (this.#open !== 'stored' || this.#names !== names || this.#nextIndex !== index) {
      this.#close();
      this.#open = 'stored';
      this.#names = names;
      this.#parent = index === 0 ? undefined : [names.hashes[2 * index - 2]!, names.hashes[2 * index - 1]!];
    }
    this.#nextIndex = index + 1;
    this.#hashes.push(names.hashes[2 * index]!, names.hashes[2 * index + 1]!);
    this.#tokensHashes.push(names.tokensHashes[2 * index]!, names.tokensHashes[2 * index + 1]!);
  }

  removed(hashLow: number, hashHigh: number): void {
    if (this.#open !== 'removed') {
      this.#close();
      this.#open = 'removed';
    }
    this.#hashes.push(hashLow, hashHigh);
  }

  cleared(): void {
    this.#close();
    this.#events.push({ kind: 'cleared', dpRank: this.#dpRank });
  }

  /** The events since the last call, in order. */
  drain(): readonly KvEvent[] {
    this.#close();
    const events = this.#events;
    if (events.length > 0) this.#events = [];
    return events;
  }

  #close(): void {
    const dpRank = this.#dpRank;
    if (this.#open === 'stored') {
      const parentHash = this.#parent;
      const blockHashes = this.#hashes.cut();
      this.#events.push({ kind: 'stored', dpRank, parentHash, blockHashes, tokensHashes: this.#tokensHashes.cut() });
    } else if (this.#open === 'removed') {
      this.#events.push({ kind: 'removed', dpRank, blockHashes: this.#hashes.cut() });
    }
    this.#open = 'none';
    this.#names = undefined; // lets go of a finished request
  }
}
