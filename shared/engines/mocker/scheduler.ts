import assert from 'node:assert';
import { type BlockListener, BlockPool } from './block-pool.ts';
import { type CapacityRule, type CapacityRuleOptions, capacityRule } from './capacity-rules.ts';
import { type Sequence, type Waiting, WaitingQueue } from './sequence.ts';
import { type PassWork, passMs, type SpeedUp } from './timing.ts';

/** Engine model of one data-parallel rank. */
export interface SchedulerOptions extends SpeedUp, CapacityRuleOptions {
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly enablePrefixCaching: boolean;
  /**
   * Whether prompts may be split over passes. Otherwise a prompt must fit into one pass, which bounds the context to
   * `maxNumBatchedTokens`.
   */
  readonly enableChunkedPrefill: boolean;
}

/**
 * Continuous batching of one rank without time of its own: `startPass` schedules a pass and returns its duration,
 * `finishPass` applies its results. The live engine waits in between; the simulator moves its virtual clock.
 *
 * | State | `submit` | `cancel` | `startPass` | `finishPass` |
 * |---|---|---|---|---|
 * | between passes | queued | blocks freed at once | starts | not allowed |
 * | in a pass | queued for the next | blocks freed at the pass's end | not allowed | ends |
 *
 * Order and memory rules are those of Dynamo's mock engine, except for the decisions of `CapacityRule`. A sequence must
 * fit into the whole cache at its full length.
 */
export class Scheduler {
  readonly pool: BlockPool;
  readonly #options: SchedulerOptions;
  readonly #rule: CapacityRule;
  readonly #waiting = new WaitingQueue();
  #running: Sequence[] = [];
  #inPass = false;
  #cancelledInPass = false;
  #wasPreempted = false;
  #budget = 0;
  readonly #left: Waiting = { requests: 0, tokens: 0, preempted: 0, preemptedTokens: 0 };
  readonly #work: PassWork = { prefills: 0, prefillStart: 0, prefillEnd: 0, decodes: 0, decodeContext: 0 };

  constructor(options: SchedulerOptions, listener?: BlockListener) {
    this.#options = options;
    this.#rule = capacityRule(options);
    this.pool = new BlockPool(options.numGpuBlocks, listener);
  }

  get runningCount(): number {
    return this.#running.length;
  }

  get waitingCount(): number {
    return this.#waiting.size;
  }

  get isIdle(): boolean {
    return this.#running.length === 0 && this.#waiting.size === 0;
  }

  /** Known tokens not yet computed, of all sequences that prefill or wait. */
  get pendingPrefillTokens(): number {
    let tokens = 0;
    for (const sequence of this.#running) if (sequence.isPrefilling) tokens += sequence.length - sequence.computed;
    return tokens + this.#waiting.sums.tokens + this.#waiting.sums.preemptedTokens;
  }

  /** Work of the pass that was started last; the same object each time. */
  get work(): Readonly<PassWork> {
    return this.#work;
  }

  /** Sequences that the pass left waiting; later ones are for the next pass. The same object each time. */
  get left(): Readonly<Waiting> {
    return this.#left;
  }

  submit(sequence: Sequence): void {
    assert(sequence.state === 'new' && sequence.promptLength > 0, 'a sequence is submitted once, with a prompt');
    sequence.state = 'waiting';
    this.#waiting.pushBack(sequence);
  }

  /** Drops a sequence; it emits no more tokens. Idempotent. */
  cancel(sequence: Sequence): void {
    sequence.isCancelled = true;
    if (sequence.state === 'waiting') {
      this.#waiting.remove(sequence);
      sequence.state = 'gone';
    } else if (sequence.state === 'running') {
      if (this.#inPass) this.#cancelledInPass = true;
      else this.#dropCancelled();
    }
  }

  /** Releases the blocks that a finished sequence has kept. Idempotent. */
  letGo(sequence: Sequence): void {
    sequence.keepsBlocks = false;
    if (sequence.state !== 'held') return; // the end of its last pass releases them
    this.#release(sequence);
    sequence.state = 'gone';
  }

  /** Returns how many leading tokens of a sequence's prompt are cached now. */
  cachedTokens(sequence: Sequence): number {
    const hits = this.#findPrefix(sequence);
    sequence.blockCount = 0;
    return hits * this.#options.blockSizeTokens;
  }

  /**
   * Schedules one pass and returns its duration in ms. Call only when not idle. If finished sequences keep their
   * blocks, nothing may run afterwards: then nothing can proceed until some are released.
   */
  startPass(): number {
    assert(!this.#inPass, 'one pass at a time');
    this.#inPass = true;
    this.#wasPreempted = false;
    this.#budget = this.#options.maxNumBatchedTokens;
    this.#scheduleRunning();
    if (!this.#wasPreempted) {
      this.#admitWaiting();
      this.#rule.passed?.();
    }
    Object.assign(this.#left, this.#waiting.sums);
    return passMs(this.#sumWork(), this.pool.capacity * this.#options.blockSizeTokens, this.#options);
  }

  /**
   * Ends the pass: every sequence whose known tokens are all computed emits one, and finished ones release their
   * blocks.
   */
  finishPass(): void {
    assert(this.#inPass, 'no pass to finish');
    let kept = 0;
    const running = this.#running;
    for (let at = 0; at < running.length; at++) {
      const sequence = running[at]!;
      const wasScheduled = sequence.passTokens > 0;
      sequence.passTokens = 0;
      if (wasScheduled && sequence.computed === sequence.length) {
        sequence.isPrefilling = false;
        if (!sequence.isCancelled && sequence.emit()) {
          if (!sequence.keepsBlocks) this.#release(sequence);
          sequence.state = sequence.keepsBlocks ? 'held' : 'gone';
          continue;
        }
      }
      running[kept++] = sequence;
    }
    if (kept < running.length) running.length = kept; // setting it costs as much as the rest of a small pass
    this.#inPass = false;
    if (this.#cancelledInPass) this.#dropCancelled(); // also those cancelled from within `emit`
  }

  #dropCancelled(): void {
    this.#cancelledInPass = false;
    this.#running = this.#running.filter((sequence) => {
      if (!sequence.isCancelled) return true;
      this.#release(sequence);
      sequence.state = 'gone';
      return false;
    });
  }

  #scheduleRunning(): void {
    for (let at = 0; at < this.#running.length && this.#budget > 0; at++) {
      const sequence = this.#running[at]!;
      const want = this.#wantedTokens(sequence, sequence.computed);
      if (want === 0) return;
      const missing = this.#missingBlocks(sequence, sequence.computed + want);
      while (missing > this.pool.available) {
        const victimAt = this.#rule.victimAt(this.#running);
        this.#preempt(victimAt);
        if (victimAt < at) at--;
        if (this.#running[at] !== sequence) break; // it was preempted itself; the next one stands in its place
      }
      if (this.#running[at] === sequence) this.#grant(sequence, sequence.computed, want);
      else at--;
    }
  }

  #admitWaiting(): void {
    while (this.#budget > 0 && this.#running.length < this.#options.maxNumSeqs) {
      const sequence = this.#waiting.head;
      if (sequence === undefined) return;
      const hits = this.#findPrefix(sequence);
      const found = hits * this.#options.blockSizeTokens;
      const before = sequence.isTransferred ? sequence.length - 1 : found;
      const want = this.#wantedTokens(sequence, before);
      if (want === 0 || !this.#fits(sequence, hits)) return; // no sequence overtakes the head
      for (let index = 0; index < hits; index++) this.pool.pin(sequence.blocks[index]!);
      sequence.sealedCount = hits;
      if (sequence.cachedTokens < 0) sequence.cachedTokens = found;
      sequence.reusedTokens += found;
      sequence.isPrefilling = !sequence.isTransferred;
      sequence.state = 'running';
      this.#waiting.remove(sequence);
      this.#running.push(sequence);
      this.#grant(sequence, before, want);
    }
  }

  /**
   * Notes the slots of the leading cached blocks and returns their number. At least one token remains to be computed.
   */
  #findPrefix(sequence: Sequence): number {
    sequence.blockCount = 0;
    if (!this.#options.enablePrefixCaching) return 0;
    const hitsMax = Math.floor((sequence.length - 1) / this.#options.blockSizeTokens);
    sequence.names.ensure(hitsMax);
    const hashes = sequence.names.hashes;
    while (sequence.blockCount < hitsMax) {
      const slot = this.pool.find(hashes[2 * sequence.blockCount]!, hashes[2 * sequence.blockCount + 1]!);
      if (slot < 0) break;
      sequence.pushBlock(slot);
    }
    return sequence.blockCount;
  }

  /**
   * Returns whether the sequence fits, by the engine's rule. Of its cached blocks, only those in use count as already
   * there.
   */
  #fits(sequence: Sequence, hits: number): boolean {
    let needed = Math.ceil(sequence.length / this.#options.blockSizeTokens);
    for (let index = 0; index < hits; index++) if (this.pool.isActive(sequence.blocks[index]!)) needed--;
    return needed + this.#rule.reserve(sequence, this.#running) <= this.pool.available;
  }

  #wantedTokens(sequence: Sequence, before: number): number {
    const rest = sequence.length - before;
    if (rest <= this.#budget) return rest;
    return this.#options.enableChunkedPrefill ? this.#budget : 0;
  }

  #missingBlocks(sequence: Sequence, tokens: number): number {
    return Math.ceil(tokens / this.#options.blockSizeTokens) - sequence.blockCount;
  }

  #grant(sequence: Sequence, before: number, want: number): void {
    const after = before + want;
    for (let missing = this.#missingBlocks(sequence, after); missing > 0; missing--)
      sequence.pushBlock(this.pool.take());
    sequence.computed = after;
    sequence.passTokens = want;
    this.#budget -= want;
    if (this.#options.enablePrefixCaching) this.#sealFull(sequence);
  }

  #sealFull(sequence: Sequence): void {
    const full = Math.floor(sequence.computed / this.#options.blockSizeTokens);
    if (full === sequence.sealedCount) return;
    const { names, blocks } = sequence;
    names.ensure(full);
    for (let index = sequence.sealedCount; index < full; index++) {
      blocks[index] = this.pool.seal(blocks[index]!, names, index);
    }
    sequence.sealedCount = full;
  }

  #preempt(victimAt: number): void {
    const [victim] = this.#running.splice(victimAt, 1);
    assert(victim !== undefined, 'somebody runs');
    this.#wasPreempted = true;
    this.#budget += victim.passTokens;
    victim.passTokens = 0;
    victim.preemptions++;
    victim.isTransferred = false; // the moved blocks are lost: its prompt must be computed
    victim.state = 'waiting';
    this.#release(victim);
    if (this.#rule.requeuesTo === 'front') this.#waiting.pushFront(victim);
    else this.#waiting.pushBack(victim);
    this.#rule.gaveWay?.(this.#running);
  }

  /** Releases all blocks, the last one first, so that the tail of a prompt is evicted before its head. */
  #release(sequence: Sequence): void {
    for (let index = sequence.blockCount - 1; index >= 0; index--) this.pool.unpin(sequence.blocks[index]!);
    sequence.blockCount = 0;
    sequence.sealedCount = 0;
    sequence.computed = 0;
  }

  #sumWork(): PassWork {
    const work = this.#work;
    work.prefills = work.prefillStart = work.prefillEnd = work.decodes = work.decodeContext = 0;
    for (const sequence of this.#running) {
      if (sequence.passTokens === 0) continue;
      if (sequence.isPrefilling) {
        work.prefills++;
        // Prompt positions: computing generated tokens again after a preemption costs no prefill time in the reference.
        work.prefillStart += Math.min(sequence.promptLength, sequence.computed - sequence.passTokens);
        work.prefillEnd += Math.min(sequence.promptLength, sequence.computed);
      } else {
        work.decodes++;
        work.decodeContext += sequence.length;
      }
    }
    return work;
  }
}
