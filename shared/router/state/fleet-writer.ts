import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock, Random } from '../../clock/index.ts';
import { PeriodicTask } from '../../concurrency/index.ts';
import { dealIntoCells, type FleetWorker, packFleetCell, unpackFleetCell, withoutAges } from './fleet-item.ts';
import type { PoolAddress, RouterState } from './types.ts';

export interface FleetWriterOptions {
  readonly state: RouterState;
  readonly pool: PoolAddress;
  readonly clock: Clock;
  readonly random: Random;
  /** Shortest time between two writes of a cell. @default 1000 */
  readonly writeMs?: number;
  /** Longest time between two writes of a cell. @default 5000 */
  readonly rewriteMs?: number;
  /** The workers as they are now, with the loads that the writer knows. */
  workers(): readonly FleetWorker[];
  /** Of the lease, while it is held; undefined = somebody else writes. */
  fence(): number | undefined;
  /** Gives way to other work between the cells of a large fleet. @default the next turn of the event loop */
  readonly defer?: () => Promise<void>;
  /** Hears of writes that failed; they are repeated. */
  onProblem(problem: unknown): void;
}

interface WrittenCell {
  /** As packed without its age. */
  readonly content: Buffer;
  readonly writtenAtMs: number;
}

const WRITE_MS = 1000;
const REWRITE_MS = 5000;
/** Reads a second that one copy of a cell answers. */
const READS_PER_COPY = 500;
const COPIES_MAX = 16;
/** A copy is given up when the others would still be read no more than this share of what they can. */
const EASE_SHARE = 0.6;
/** Writes under way at once. */
const WRITES_MAX = 8;
const MS_PER_SECOND = 1000;
/** Cells packed in one go; about 1 ms. */
const CELLS_A_TURN = 8;

/**
 * Writes the workers of a pool where functions read them (design, "Fleet item"): a cell when it has changed, at most once a
 * second, and every 5 s otherwise. Only the lease holder writes, and under its fence, so that one that was frozen cannot put
 * its old view over a newer one.
 */
export class FleetWriter {
  readonly #options: FleetWriterOptions;
  readonly #task: PeriodicTask;
  readonly #written = new Map<string, WrittenCell>(); // by cell and copy; bounded by the cells there are
  #cells: number | undefined;
  #copies = 1;
  #reads: { readonly total: number; readonly atMs: number } | undefined;

  constructor(options: FleetWriterOptions) {
    const { clock, random, writeMs = WRITE_MS, onProblem } = options;
    this.#options = options;
    this.#task = new PeriodicTask({
      clock,
      random,
      periodMs: writeMs,
      run: (signal) => this.#round(signal),
      onProblem,
    });
  }

  start(): void {
    this.#task.start();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  async #round(signal: AbortSignal): Promise<void> {
    const fence = this.#options.fence();
    if (fence === undefined) {
      this.#written.clear(); // whoever holds the lease next writes everything
      this.#cells = undefined;
      return;
    }
    this.#cells ??= await this.#readCells(signal);
    await this.#countCopies(signal);
    const dealt = dealIntoCells(this.#options.workers(), this.#cells);
    this.#cells = dealt.length;
    const due: DueCell[] = [];
    for (const [cell, workers] of dealt.entries()) {
      due.push(...this.#dueCopies(workers, cell, dealt.length));
      if (cell % CELLS_A_TURN === CELLS_A_TURN - 1) await (this.#options.defer ?? nextTurn)();
    }
    for (let at = 0; at < due.length; at += WRITES_MAX) {
      await Promise.all(due.slice(at, at + WRITES_MAX).map((write) => this.#write(write, fence, signal)));
    }
    for (const key of this.#written.keys()) {
      if (Number(key.split('/')[0]) >= dealt.length || Number(key.split('/')[1]) >= this.#copies)
        this.#written.delete(key);
    }
  }

  #dueCopies(workers: readonly FleetWorker[], cell: number, cells: number): readonly DueCell[] {
    const { state, clock, writeMs = WRITE_MS, rewriteMs = REWRITE_MS } = this.#options;
    const body = packFleetCell({ cells, copies: this.#copies, rewriteMs, workers }, state.nowMs());
    const content = withoutAges(body);
    const due: DueCell[] = [];
    for (let copy = 0; copy < this.#copies; copy++) {
      const written = this.#written.get(`${cell}/${copy}`);
      const isRecent = written !== undefined && clock.nowMs() - written.writtenAtMs < rewriteMs - writeMs; // the next round is late
      if (isRecent && written.content.equals(content)) continue;
      due.push({ cell, copy, content, body });
    }
    return due;
  }

  async #write({ cell, copy, content, body }: DueCell, fence: number, signal: AbortSignal): Promise<void> {
    const { state, pool, clock } = this.#options;
    const writtenAtMs = clock.nowMs();
    const isOurs = await state.writeFleetItem({ pool, cell, copy }, body, fence, signal);
    if (isOurs) this.#written.set(`${cell}/${copy}`, { content, writtenAtMs });
  }

  /** How many cells the writer before used: workers stay where their prefixes are. */
  async #readCells(signal: AbortSignal): Promise<number> {
    const { state, pool } = this.#options;
    const row = await state.readFleetItem({ pool, cell: 0, copy: 0 }, signal);
    if (row === undefined) return 1;
    try {
      return unpackFleetCell(row.body, row.writtenAtMs).cells;
    } catch {
      return 1; // written by a later version: it is replaced
    }
  }

  /** Readers tell of a sample of their reads; above 500 a second a cell gets another copy. */
  async #countCopies(signal: AbortSignal): Promise<void> {
    const { state, pool, clock, rewriteMs = REWRITE_MS, onProblem } = this.#options;
    const nowMs = clock.nowMs();
    if (this.#reads !== undefined && nowMs - this.#reads.atMs < rewriteMs) return;
    const before = this.#reads;
    try {
      this.#reads = { total: await state.fleetReads(pool, signal), atMs: nowMs };
    } catch (problem) {
      signal.throwIfAborted();
      onProblem(problem); // the cells themselves matter more
      return;
    }
    if (before === undefined) return;
    const perSecond = (MS_PER_SECOND * (this.#reads.total - before.total)) / (nowMs - before.atMs);
    const copies = perSecond / (this.#cells ?? 1) / READS_PER_COPY;
    const [needed, atEase] = [copies, copies / EASE_SHARE].map((count) => Math.max(1, Math.ceil(count)));
    // Between the two the number stays, so that it does not go back and forth.
    this.#copies = Math.min(COPIES_MAX, Math.max(needed!, Math.min(this.#copies, atEase!)));
  }
}

interface DueCell {
  readonly cell: number;
  readonly copy: number;
  readonly content: Buffer;
  readonly body: Uint8Array;
}
