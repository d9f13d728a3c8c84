import type { Clock, Timer } from '../../clock/index.ts';
import { untilAborted } from '../../concurrency/index.ts';
import type { EtcdEvent } from '../../grpc/index.ts';
import { ageMs, type Moment, momentOf } from '../table/table-time.ts';
import { ASK, type EtcdClient } from './etcd-client.ts';
import { EtcdFailure } from './etcd-errors.ts';
import { type KeyRange, type RangeChanges, type Reading, readRanges } from './key-range.ts';

/** Callbacks of a follower. */
export interface RangeListener<Value> {
  /** Called with the whole content of the ranges. */
  show(values: ReadonlyMap<string, Value>): void;
  /** Called with single changes. */
  change(changes: RangeChanges<Value>): void;
  /** Called when the ranges cannot be read; also several times. */
  fail(error: Error): void;
  /** Called when everything up to now is shown. */
  succeed(): void;
}

export interface RangeFollowerOptions<Value> {
  readonly client: EtcdClient;
  readonly clock: Clock;
  readonly ranges: readonly KeyRange<Value>[];
  readonly listener: RangeListener<Value>;
  /** Time for which keys of a lost history stay, until their owners have written them again. */
  readonly holdMs: number;
}

/** Attempts to read all ranges within one history. */
const READINGS_MAX = 3;

/**
 * Follows ranges of keys for one listener. `catchUp` brings it up to now by one question; events of a watch keep it
 * there. Both may overlap in any order, because each change has its revision.
 */
export class RangeFollower<Value> {
  readonly #options: RangeFollowerOptions<Value>;
  readonly #closing = new AbortController();
  /** Losses of history before what is shown; undefined before the first reading. */
  #losses: number | undefined;
  #shown: Moment | undefined;
  #catching: { readonly began: Moment; readonly done: Promise<void> } | undefined;
  #release: Timer | undefined;

  constructor(options: RangeFollowerOptions<Value>) {
    this.#options = options;
  }

  get ranges(): readonly KeyRange<Value>[] {
    return this.#options.ranges;
  }

  /** Whether it has read its ranges. */
  get isShown(): boolean {
    return this.#shown !== undefined;
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  /**
   * Shows everything that was written until `maxAgeMs` ago. Callers at the same time share a reading.
   * @throws EtcdFailure, or the reason of the signal
   */
  async catchUp(signal: AbortSignal, maxAgeMs = 0): Promise<void> {
    const { clock } = this.#options;
    const called = momentOf(clock);
    const isFresh = (moment: Moment): boolean =>
      moment.nowMs >= called.nowMs || (maxAgeMs > 0 && ageMs(moment, clock) <= maxAgeMs);
    while (this.#shown === undefined || !isFresh(this.#shown)) {
      signal.throwIfAborted();
      this.#closing.signal.throwIfAborted();
      const reading = this.#catching ?? this.#begin();
      const done = untilAborted(reading.done, signal);
      if (isFresh(reading.began)) return done;
      await done.catch(() => signal.throwIfAborted()); // an earlier one, whose callers get its failure
    }
  }

  /** Takes events of a watch on one of the ranges. */
  apply(range: KeyRange<Value>, events: readonly EtcdEvent[]): void {
    const changes = range.apply(events);
    if (changes.length > 0 && !this.isClosed) this.#options.listener.change(changes);
  }

  fail(error: Error): void {
    if (!this.isClosed) this.#options.listener.fail(error);
  }

  close(): void {
    this.#closing.abort(new Error('the watch was closed'));
    this.#release?.cancel();
  }

  #begin() {
    const began = momentOf(this.#options.clock);
    const done = this.#catchUp(began, this.#closing.signal).finally(() => {
      this.#catching = undefined;
    });
    this.#catching = { began, done };
    return this.#catching;
  }

  async #catchUp(began: Moment, signal: AbortSignal): Promise<void> {
    if (this.#losses === undefined || !(await this.#amend(signal))) await this.#readAll(signal);
    this.#shown = began;
    if (!this.isClosed) this.#options.listener.succeed();
  }

  /** Reads what has changed. Returns false if that does not suffice. */
  async #amend(signal: AbortSignal): Promise<boolean> {
    const { client, ranges, listener } = this.#options;
    const success = ranges.map(({ start: key, end: rangeEnd, nextRevision: minModRevision }) => ({
      request: { case: 'requestRange' as const, value: { key, rangeEnd, minModRevision } },
    }));
    try {
      const { header, responses } = await client.ask(ASK.transact, { success }, signal);
      if (client.losses !== this.#losses) return false;
      let isWhole = true;
      for (const [at, range] of ranges.entries()) {
        const response = responses[at]?.response;
        if (response?.case !== 'responseRange') return false;
        const changes = range.amend(response.value, header?.revision ?? 0n);
        if (changes === undefined) isWhole = false;
        else if (changes.length > 0 && !this.isClosed) listener.change(changes);
      }
      return isWhole;
    } catch (thrown) {
      if (thrown instanceof EtcdFailure && thrown.isTooLarge) return false; // the pages of a whole reading are smaller
      throw thrown;
    }
  }

  async #readAll(signal: AbortSignal): Promise<void> {
    const { ranges, listener, clock, holdMs } = this.#options;
    const { readings, losses } = await this.#readOneHistory(signal);
    if (this.isClosed) return;
    const isLost = this.#losses !== undefined && losses !== this.#losses;
    for (const [at, range] of ranges.entries()) range.replace(readings[at] as Reading, isLost); // as many as ranges
    this.#losses = losses;
    listener.show(new Map(ranges.flatMap((range) => [...range.values()])));
    if (!isLost) return;
    this.#release?.cancel();
    this.#release = clock.after(holdMs, () => {
      const changes = ranges.flatMap((range) => range.dropHeld());
      if (changes.length > 0) listener.change(changes);
    });
  }

  async #readOneHistory(signal: AbortSignal) {
    const { client, ranges } = this.#options;
    for (let attempts = 1; ; attempts++) {
      const { losses } = client;
      const readings = await readRanges(client, ranges, signal);
      if (client.losses === losses || attempts === READINGS_MAX) return { readings, losses };
    }
  }
}
