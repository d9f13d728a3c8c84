import type { Clock, Timer } from '../../clock/index.ts';
import type { EnginePass, KvEvent } from '../types.ts';
import { type BlockChange, BlockJournal } from './block-pool.ts';
import { KvPublisher } from './kv-publisher.ts';
import type { Defer, KvStreamOptions, MockEngineDeps, MockSettings } from './options.ts';
import { Scheduler } from './scheduler.ts';

/** One data-parallel rank of a live mock engine. */
export interface Rank {
  readonly scheduler: Scheduler;
  readonly loop: PassLoop;
  /** Publisher of cache changes in vLLM's format, if the engine has one. */
  readonly publisher: KvPublisher | undefined;
  /** Reports the cache changes since the last call. */
  reportEvents(): void;
}

export function createRank(
  dpRank: number,
  { kvStream, scheduler: options }: MockSettings,
  { clock, defer = setImmediate }: MockEngineDeps,
  onKvEvents: (events: readonly KvEvent[]) => void,
  onPass: () => ((pass: EnginePass) => void) | undefined,
): Rank {
  const { blockSizeTokens } = options;
  const journal = new BlockJournal();
  const publisher = kvStream && new KvPublisher({ ...ofRank(kvStream, dpRank), dpRank, blockSizeTokens, clock });
  const scheduler = new Scheduler(options, journal);
  const reportEvents = (): void => {
    const changes = journal.drain();
    if (changes.length === 0) return;
    onKvEvents(toKvEvents(changes, dpRank));
    publisher?.publish(changes);
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

/** Converts cache changes of rank `dpRank` to the events for routers. */
export function toKvEvents(changes: readonly BlockChange[], dpRank: number): readonly KvEvent[] {
  return changes.map((change): KvEvent => {
    if (change.kind === 'cleared') return { kind: 'cleared', dpRank };
    if (change.kind === 'removed') return { kind: 'removed', dpRank, blockHashes: new Uint32Array(change.hashes) };
    const { start, end } = change;
    const { hashes, tokensHashes } = change.names;
    return {
      kind: 'stored',
      dpRank,
      parentHash: start === 0 ? undefined : [hashes[2 * start - 2]!, hashes[2 * start - 1]!],
      blockHashes: hashes.slice(2 * start, 2 * end),
      tokensHashes: tokensHashes.slice(2 * start, 2 * end),
    };
  });
}

/** Delay after which the schedule stops catching up with the clock. */
const LAG_MAX_MS = 1000;
/**
 * Time before its end at which a pass already counts as due, because the shortest timer takes 1 ms. Early ends do not
 * add up either.
 */
const EARLY_MS_MAX = 0.05;

/**
 * Runs the passes of one rank back to back while there is work.
 *
 * The end of a pass is counted from the end of the previous pass, not from when a timer fired, so late timers do not
 * add up. Passes may be due already, because a timer was late or a huge speed-up makes them take no time: then one runs
 * in each turn. So all output of a pass is written in one turn, and sockets are served between passes.
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

  /** Wakes the loop: there may be work, or room for it. Sequences submitted in the same turn share the first pass. */
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
        this.#scheduler.finishPass(); // the blocks of finished prompts take up the room
        this.#inPass = this.#isAwake = false;
        return;
      }
    }
    const waitMs = this.#passEndMs - nowMs;
    if (waitMs <= EARLY_MS_MAX) this.#defer(this.#turn);
    else this.#timer = this.#clock.after(waitMs, this.#turn);
  }
}
