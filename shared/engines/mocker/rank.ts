import type { Clock, Timer } from '../../clock/index.ts';
import { grown } from '../../records/index.ts';
import type { EnginePass, KvEvent } from '../types.ts';
import type { BlockListener } from './block-pool.ts';
import { EngineJournal, KvPublisher } from './kv-publisher.ts';
import type { Defer, KvStreamOptions, MockEngineDeps, MockSettings } from './options.ts';
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

function passOf(dpRank: number, { work, left }: Scheduler, passMs: number): EnginePass {
  return {
    dpRank,
    wallTimeS: passMs / 1000,
    prefillRequests: work.prefills,
    prefillTokens: work.prefillEnd - work.prefillStart,
    prefillKvTokens: work.prefillStart,
    decodeRequests: work.decodes,
    decodeKvTokens: work.decodeContext,
    queuedPrefillRequests: left.requests,
    queuedPrefillTokens: left.tokens,
    queuedDecodeRequests: left.preempted,
    queuedDecodeKvTokens: left.preemptedTokens,
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
    if (this.#count + 2 > this.#words.length) this.#words = grown(this.#words);
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

/** Passes may end this much after their time before the schedule gives up catching up with the clock. */
const LAG_MAX_MS = 1000;
/** A pass counts as due this much before its time, as the shortest timer takes 1 ms. What comes early does not add up either. */
const EARLY_MS_MAX = 0.05;

/**
 * Runs the passes of one rank back to back while there is work.
 *
 * A pass ends at a time counted from the end of the pass before it, not from when a timer happened to fire, so late timers
 * add up to nothing. Passes that are due already, because a timer was late or because a huge speed-up makes them take no
 * time, run one a turn: everything one pass makes is written in one turn, and sockets are served between passes.
 */
class PassLoop {
  readonly #scheduler: Scheduler;
  readonly #clock: Clock;
  readonly #defer: Defer;
  readonly #onPassEnd: (passMs: number) => void;
  #passMs = 0;
  #isAwake = false;
  #isStopped = false;
  #inPass = false;
  #passEndMs = 0;
  #timer: Timer | undefined;
  readonly #turn = (): void => this.#runTurn();

  constructor(scheduler: Scheduler, clock: Clock, defer: Defer, onPassEnd: (passMs: number) => void) {
    this.#scheduler = scheduler;
    this.#clock = clock;
    this.#defer = defer;
    this.#onPassEnd = onPassEnd;
  }

  /** There may be work, or room for it. What is submitted in the same turn shares the first pass. */
  wake(): void {
    if (this.#isAwake || this.#isStopped) return;
    this.#isAwake = true;
    this.#passEndMs = this.#clock.nowMs();
    this.#defer(this.#turn);
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  #runTurn(): void {
    if (this.#isStopped) return;
    const nowMs = this.#clock.nowMs();
    if (this.#inPass && this.#passEndMs - nowMs <= EARLY_MS_MAX) {
      this.#inPass = false;
      this.#scheduler.finishPass();
      this.#onPassEnd(this.#passMs);
    }
    if (!this.#inPass) {
      if (this.#scheduler.isIdle) {
        this.#isAwake = false;
        return;
      }
      this.#inPass = true;
      this.#passMs = this.#scheduler.startPass();
      this.#passEndMs = Math.max(this.#passEndMs, nowMs - LAG_MAX_MS) + this.#passMs;
      if (this.#scheduler.runningCount === 0) {
        this.#scheduler.finishPass(); // the blocks of finished prompts are in the way
        this.#inPass = this.#isAwake = false;
        return;
      }
    }
    const waitMs = this.#passEndMs - nowMs;
    if (waitMs <= EARLY_MS_MAX) this.#defer(this.#turn);
    else this.#timer = this.#clock.after(waitMs, this.#turn);
  }
}
