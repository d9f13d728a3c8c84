import type { Clock, Random } from '../../clock/index.ts';
import type { ViewObserver } from '../options.ts';
import type { Table } from '../table/table.ts';
import { momentOf, type TableTime } from '../table/table-time.ts';
import { CardNamesBook } from './card-names.ts';
import { keepCards, packCatalogue, readCatalogue } from './catalogue.ts';
import { type Fleet, ReadingMerge } from './fleet/members.ts';
import { cardSumsOf } from './fleet/record-bytes.ts';
import type { ViewIndex } from './fleet/view-index.ts';
import type { LeaseCleaner } from './lease-cleaner.ts';
import { LeasePauses } from './lease-pauses.ts';
import { type DeadLease, type LeaseLiveness, LeaseScan } from './lease-scan.ts';
import { type HeadState, HeadWatch, type ViewHead } from './view-head.ts';
import { ViewReader } from './view-reader.ts';
import { FenceLost, ViewWriter } from './view-writer.ts';

export interface FleetReaderOptions {
  readonly table: Table;
  readonly time: TableTime;
  readonly clock: Clock;
  readonly random: Random;
  readonly liveness: LeaseLiveness;
  readonly cleaner: LeaseCleaner;
  /** Id of the process, under which it holds the head. */
  readonly holder: string;
  /** Whether this process may gather the view: a process that is frozen between requests may not. */
  readonly mayGather: boolean;
  /** Period of reading. Readings of the leases, in place of a view that is too old, have longer pauses. */
  readonly pollMs: number;
  readonly observer: ViewObserver;
  readonly report: (problem: Error) => void;
}

/** Result of a reading. */
export interface FleetReading {
  /** Live processes; undefined if this process only checked the head. */
  readonly fleet: Fleet | undefined;
  /** Packed catalogue; undefined if it has not changed. */
  readonly catalogue: Uint8Array | undefined;
  /** Whether it contains the processes of all asked models. @default true */
  readonly isComplete?: boolean;
}

/** Options of a reading of the fleet. */
export interface FleetRequest {
  readonly shardKey: string | undefined;
  /** Whether a caller wants the fleet. Otherwise the reader only makes sure that a view exists. */
  readonly isFollowed: boolean;
  /** Whether the table could not be read until now. */
  readonly isFailing: boolean;
  /** Models whose processes are wanted; undefined = all. */
  readonly models?: ReadonlySet<string> | undefined;
  /** Whether to read more of the last reading's view, under the same head. @default false */
  readonly isFurther?: boolean | undefined;
}

/** Time for which a view is valid, and the head held, without another write. */
const VIEW_TTL_MS = 3000;
/**
 * Number of readings between two readings of the catalogue by the gatherer. The catalogue changes only with roll-outs.
 */
const CATALOGUE_EVERY = 15;
/**
 * Number of readings with which the gatherer also reads the catalogue after the fleet has got a new card. Workers write
 * the model there after their lease. A model must be known even if its only worker leaves soon.
 */
const CATALOGUE_READS_OF_CARD = 3;
/** Interval at which the gatherer extends the life of the catalogue's cards. */
const CARDS_KEPT_MS = 86_400_000;
/** Age of a view from which it does not show which processes are alive, if this process knows of no outage. */
const OUTAGE_MS_MAX = 120_000;
const NOTHING: Fleet = new Map();

/**
 * Reads the fleet in one of these ways:
 *
 *     the head is kept up         the view: the head, and the cells that changed
 *     this process holds it       the leases, from which it then writes the view
 *     the head is too old         takes the head over; or reads the leases, ever less often, and writes nothing
 *
 * While all of them fail, the last known fleet stays.
 */
export class FleetReader {
  readonly #options: FleetReaderOptions;
  readonly #view: ViewReader;
  readonly #scan: LeaseScan;
  readonly #writer: ViewWriter;
  readonly #headWatch: HeadWatch;
  readonly #merge: ReadingMerge;
  #known: Fleet = NOTHING;
  #hasAdopted = false;
  #isCleaning = false;
  readonly #closing = new AbortController();
  readonly #pauses: LeasePauses;
  /** Failure of the last reading of the leases in place of the view; undefined if it succeeded. */
  #scanFailure: unknown;
  /** Models whose processes `#known` contains. */
  #covered: ReadonlySet<string> | 'all' | 'none' = 'none';
  #catalogue: Uint8Array = new Uint8Array();
  #remembered: readonly string[] = [];
  readonly #names: CardNamesBook;
  #untilCatalogue = 0;
  #cardSums: ReadonlySet<string> = new Set(); // of the fleet as last gathered
  #cardReads = 0; // readings of the catalogue that new cards still ask for
  #cardsKeptAtMs = Number.NEGATIVE_INFINITY;
  #leases = 0;
  #isSharded = false;
  /** View as last read, if it is usable. */
  #head: ViewHead | undefined;
  #models: ReadonlySet<string> | undefined;
  #shardKey: string | undefined;

  constructor(options: FleetReaderOptions) {
    this.#options = options;
    const { table, clock, time, holder, pollMs } = options;
    this.#view = new ViewReader(table);
    this.#scan = new LeaseScan(options);
    this.#writer = new ViewWriter({ table, clock, time, holder, ttlMs: VIEW_TTL_MS });
    this.#headWatch = new HeadWatch(clock, time, VIEW_TTL_MS);
    this.#names = new CardNamesBook(table, clock);
    this.#pauses = new LeasePauses(options);
    this.#merge = new ReadingMerge(VIEW_TTL_MS + pollMs);
  }

  get isGathering(): boolean {
    return this.#writer.isHolder;
  }

  /** Live processes, as last read. */
  get leases(): number {
    return this.#leases;
  }

  /** Cells of the models; undefined if that is unknown, or was not wanted. */
  get index(): ViewIndex | undefined {
    return this.#view.index;
  }

  /** Whether the loads that were read include what the key requires. */
  covers(shardKey: string | undefined): boolean {
    return !this.#isSharded || shardKey === undefined || shardKey === this.#shardKey;
  }

  /** Reads everything that was written before the reading began. */
  async readExactly(isFailing: boolean, signal: AbortSignal): Promise<FleetReading> {
    let catalogue: Uint8Array | undefined;
    if (!this.#hasAdopted && !this.isGathering) {
      const head = await this.#view.readHead(signal);
      if (head !== undefined) catalogue = await this.#adopt(head, isFailing, signal);
    }
    const fleet = await this.#readLeases({ isExact: true, mayRest: false }, isFailing, signal);
    return { fleet, catalogue };
  }

  /** Reads the fleet as of about a second ago. */
  async read(request: FleetRequest, signal: AbortSignal): Promise<FleetReading> {
    const { shardKey, isFollowed, isFailing, models } = request;
    this.#models = models;
    const { mayGather, observer, time } = this.#options;
    if (this.isGathering) return this.#gather(isFailing, signal);
    const held = request.isFurther === true ? this.#head : undefined;
    const head = held ?? (await this.#view.readHead(signal));
    // A held head was fresh when it was read.
    const state = held === undefined ? this.#judge(head) : { isFresh: true, isTakeable: false };
    this.#head = state.isFresh ? head : undefined;
    if (mayGather && state.isTakeable && (await this.#take(head, isFailing, signal)))
      return this.#gather(isFailing, signal);
    if (head !== undefined && state.isFresh) {
      this.#pauses.viewed();
      this.#scanFailure = undefined;
      this.#leases = head.body?.leases ?? 0;
      if (!isFollowed) return { fleet: undefined, catalogue: undefined };
      const reading = await this.#view.readCells(head, { shardKey, models }, signal);
      if (reading.fleet !== undefined) {
        observer.read('view', Math.max(0, time.nowMs() - head.writtenAtMs));
        [this.#isSharded, this.#shardKey] = [reading.isSharded, shardKey];
        if (reading.isComplete !== false) this.#covered = models ?? 'all';
        return {
          catalogue: reading.catalogue,
          isComplete: reading.isComplete,
          fleet: this.#learn(this.#merge.with(reading.fleet, this.#options.clock.nowMs())),
        };
      }
    }
    if (!isFollowed) return { fleet: undefined, catalogue: undefined };
    return this.#fallBack(head, isFailing, signal);
  }

  /** Stops the work in the background, and gives the head up if this process holds it. */
  close(signal: AbortSignal): Promise<void> {
    this.#closing.abort(new Error('the discovery handle is closed'));
    return this.#writer.release(signal);
  }

  #judge(head: ViewHead | undefined): HeadState {
    return head === undefined ? { isFresh: false, isTakeable: true } : this.#headWatch.observe(head);
  }

  async #take(head: ViewHead | undefined, isFailing: boolean, signal: AbortSignal): Promise<boolean> {
    if (head !== undefined) await this.#adopt(head, isFailing, signal);
    if (!(await this.#writer.take(head, signal))) return false;
    this.#untilCatalogue = 0;
    this.#scan.wake();
    this.#options.observer.gathering(true);
    return true;
  }

  async #gather(isFailing: boolean, signal: AbortSignal): Promise<FleetReading> {
    const { clock, observer } = this.#options;
    const began = momentOf(clock);
    const reading = await this.#scanLeases({ isExact: false, mayRest: true }, isFailing, signal);
    const fleet = this.#learn(reading.fleet);
    this.#covered = 'all';
    this.#merge.read(fleet, fleet, clock.nowMs());
    const sums = sumsOf(fleet);
    if (hasOther(sums, this.#cardSums)) this.#cardReads = CATALOGUE_READS_OF_CARD;
    this.#cardSums = sums;
    if (this.#untilCatalogue-- <= 0 || this.#cardReads-- > 0) await this.#readCatalogue(signal);
    const hasNewNames = await this.#learnNames(sums, signal);
    const namesOf = (sum: string) => this.#names.namesOf(sum);
    const content = { fleet, catalogue: this.#catalogue, remembered: this.#remembered, namesOf, hasNewNames };
    try {
      await this.#writer.write(content, began, signal);
      observer.read('gathered', 0);
    } catch (error) {
      if (!(error instanceof FenceLost)) throw error;
      observer.gathering(false, error.message);
      return { fleet, catalogue: this.#catalogue };
    }
    void this.#clean(reading.dead); // never rejects, and no call waits for it
    return { fleet, catalogue: this.#catalogue };
  }

  /** Learns the names of cards. If a card cannot be read, this index lacks it, and the next view reads it again. */
  #learnNames(sums: ReadonlySet<string>, signal: AbortSignal): Promise<boolean> {
    return this.#names.learn(new Set([...this.#remembered, ...sums]), signal);
  }

  async #clean(dead: readonly DeadLease[]): Promise<void> {
    if (this.#isCleaning) return;
    const { cleaner, table, report } = this.#options;
    const { signal } = this.#closing;
    this.#isCleaning = true;
    try {
      await cleaner.clean(dead, signal);
    } catch (error) {
      if (!signal.aborted) report(table.explain(error)); // tried again after the next reading
    }
    this.#isCleaning = false;
  }

  /** Reads the leases, because the head is too old and this process cannot take it. */
  async #fallBack(head: ViewHead | undefined, isFailing: boolean, signal: AbortSignal): Promise<FleetReading> {
    if (this.#knowsModels() && !this.#pauses.isDue()) {
      if (this.#scanFailure !== undefined) throw this.#scanFailure; // what is known gets no newer
      return { fleet: this.#known, catalogue: undefined };
    }
    try {
      const catalogue = head === undefined ? undefined : await this.#adopt(head, isFailing, signal);
      const fleet = await this.#readLeases({ isExact: false, mayRest: false }, isFailing, signal);
      this.#scanFailure = undefined;
      this.#pauses.tried();
      this.#isSharded = false;
      this.#options.observer.read('leases', 0);
      return { fleet, catalogue };
    } catch (error) {
      if (!signal.aborted) {
        this.#scanFailure = error;
        this.#pauses.tried();
      }
      throw error;
    }
  }

  /** Whether the known fleet contains the processes of all models that are wanted. */
  #knowsModels(): boolean {
    const [covered, wanted] = [this.#covered, this.#models];
    if (covered === 'all' || covered === 'none') return covered === 'all';
    return wanted !== undefined && [...wanted].every((model) => covered.has(model));
  }

  async #readLeases(
    request: { readonly isExact: boolean; readonly mayRest: boolean },
    isFailing: boolean,
    signal: AbortSignal,
  ): Promise<Fleet> {
    const before = this.#known;
    const { fleet } = await this.#scanLeases(request, isFailing, signal);
    this.#covered = 'all';
    this.#merge.read(fleet, before, this.#options.clock.nowMs());
    return this.#learn(fleet);
  }

  #scanLeases(
    request: { readonly isExact: boolean; readonly mayRest: boolean },
    isFailing: boolean,
    signal: AbortSignal,
  ): ReturnType<LeaseScan['read']> {
    const { liveness, clock } = this.#options;
    if (isFailing) liveness.excuseOutage(clock.nowMs());
    return this.#scan.read(request, signal);
  }

  /**
   * Begins with the content of a view that no process keeps up any more, so that its records need not be read again. A
   * process that was alive when the view was written does not count as dead because the table has been unreachable
   * since.
   */
  async #adopt(head: ViewHead, isFailing: boolean, signal: AbortSignal): Promise<Uint8Array | undefined> {
    this.#hasAdopted = true;
    const { fleet = NOTHING, catalogue } = await this.#view.readCells(
      head,
      { models: this.#models, isWhole: true },
      signal,
    );
    const isRecent = this.#options.time.nowMs() - head.writtenAtMs <= OUTAGE_MS_MAX;
    this.#scan.adopt(fleet, isFailing || isRecent);
    if (catalogue !== undefined) this.#catalogue = catalogue;
    return catalogue;
  }

  #learn(fleet: Fleet): Fleet {
    this.#known = fleet;
    this.#leases = fleet.size;
    return fleet;
  }

  async #readCatalogue(signal: AbortSignal): Promise<void> {
    const { table, time, clock } = this.#options;
    const entries = await readCatalogue(table, signal, false);
    this.#catalogue = packCatalogue(entries);
    this.#remembered = entries.map(({ cardSum }) => cardSum);
    this.#untilCatalogue = CATALOGUE_EVERY;
    if (clock.nowMs() - this.#cardsKeptAtMs < CARDS_KEPT_MS) return;
    this.#cardsKeptAtMs = clock.nowMs();
    await keepCards(table, time, entries, signal);
  }
}

/** Returns the checksums of the cards of all processes. */
function sumsOf(fleet: Fleet): ReadonlySet<string> {
  const sums = new Set<string>();
  for (const { block } of fleet.values()) for (const sum of cardSumsOf(block)) sums.add(sum);
  return sums;
}

function hasOther(sums: ReadonlySet<string>, known: ReadonlySet<string>): boolean {
  for (const sum of sums) if (!known.has(sum)) return true;
  return false;
}
