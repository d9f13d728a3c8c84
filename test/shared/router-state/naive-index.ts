import type { Random } from '../../../shared/clock/index.ts';
import type { EventEnvelope } from '../../../shared/planes/index.ts';
import type { RankId } from '../../../shared/router/router.ts';
import type { JoinedIndex } from '../../../shared/router-state/snapshots/snapshot.ts';
import type { RankPlace } from '../../../shared/worker-events/kv-event-feed.ts';
import type { ScriptedEventLog } from './event-log.ts';

interface BlockEvent {
  readonly rank: RankId;
  readonly eventId: number;
  readonly kind: 'stored' | 'removed' | 'cleared';
  readonly block: number;
}

const BLOCKS = 40;

export function keyOf({ workerId, dpRank }: RankId): string {
  return `${workerId}/${dpRank}`;
}

/** Engines that store and remove blocks, publish it and know what they hold. */
export class ScriptedWorkers {
  readonly ranks: readonly RankId[];
  readonly #held = new Map<string, Set<number>>();
  readonly #eventIds = new Map<string, number>();
  readonly #log: ScriptedEventLog;
  readonly #random: Random;

  constructor(log: ScriptedEventLog, random: Random) {
    this.#log = log;
    this.#random = random;
    this.ranks = ['a1', 'b2', 'c3'].flatMap((workerId) => [0, 1].map((dpRank) => ({ workerId, dpRank })));
    for (const rank of this.ranks) this.#held.set(keyOf(rank), new Set());
  }

  /** Makes `count` changes. A share of their events is lost on the way. */
  work(count: number, lostShare = 0): void {
    for (let at = 0; at < count; at++) {
      const rank = this.ranks[this.#random.below(this.ranks.length)]!;
      const held = this.#held.get(keyOf(rank))!;
      const block = this.#random.below(BLOCKS);
      const kind = this.#random.below(40) === 0 ? 'cleared' : held.has(block) ? 'removed' : 'stored';
      change(held, kind, block);
      const eventId = (this.#eventIds.get(keyOf(rank)) ?? 0) + 1;
      this.#eventIds.set(keyOf(rank), eventId);
      if (this.#random.next() >= lostShare) this.#log.append({ rank, eventId, kind, block } satisfies BlockEvent);
    }
  }

  /** One event of every rank, so that everybody sees what is missing. */
  touchAll(): void {
    for (const rank of this.ranks) {
      const eventId = (this.#eventIds.get(keyOf(rank)) ?? 0) + 1;
      this.#eventIds.set(keyOf(rank), eventId);
      this.#held.get(keyOf(rank))!.add(0);
      this.#log.append({ rank, eventId, kind: 'stored', block: 0 } satisfies BlockEvent);
    }
  }

  dump(rank: RankId): { readonly blocks: readonly number[]; readonly lastEventId: number } {
    return { blocks: [...this.#held.get(keyOf(rank))!], lastEventId: this.#eventIds.get(keyOf(rank)) ?? 0 };
  }

  truth(): Record<string, readonly number[]> {
    return toSorted(this.#held);
  }
}

/** An index of plain sets that follows event ids. */
export class NaiveIndex implements JoinedIndex {
  readonly #workers: ScriptedWorkers;
  #held = new Map<string, Set<number>>();
  #cursors = new Map<string, RankPlace>();
  readonly #recovering = new Map<string, BlockEvent[]>();
  #generation = 0;
  dumps = 0;

  constructor(workers: ScriptedWorkers) {
    this.#workers = workers;
  }

  received(envelope: EventEnvelope): void {
    this.#take(envelope.payload as BlockEvent); // made by ScriptedWorkers
  }

  #take(event: BlockEvent): void {
    const key = keyOf(event.rank);
    const waiting = this.#recovering.get(key);
    if (waiting !== undefined) {
      waiting.push(event);
      return;
    }
    const last = this.#cursors.get(key)?.eventId ?? (event.eventId === 1 ? 0 : undefined);
    if (last === undefined || event.eventId > last + 1) {
      void this.recover(event.rank).catch(() => {}); // void by a newer generation
      return;
    }
    if (event.eventId <= last) return;
    change(this.#of(key), event.kind, event.block);
    this.#cursors.set(key, { ...event.rank, eventId: event.eventId, publisherId: 'ab' });
  }

  write() {
    return [{ name: 'all', chunks: this.#lines() }];
  }

  *#lines(): Generator<Uint8Array> {
    for (const key of [...this.#held.keys()]) {
      yield Buffer.from(`${JSON.stringify([key, [...(this.#held.get(key) ?? [])]])}\n`);
    }
    yield Buffer.from('end\n');
  }

  async load(indexes: ReadonlyMap<string, Uint8Array>, cursors: readonly RankPlace[]): Promise<void> {
    const lines = Buffer.from(indexes.get('all') ?? [])
      .toString()
      .split('\n');
    if (lines.at(-2) !== 'end') throw new RangeError('the index is cut short');
    this.clear();
    for (const line of lines.slice(0, -2)) {
      const [key, blocks] = JSON.parse(line) as [string, number[]];
      this.#held.set(key, new Set(blocks));
    }
    for (const cursor of cursors) this.#cursors.set(keyOf(cursor), cursor);
  }

  clear(): void {
    this.#generation++;
    this.#held = new Map();
    this.#cursors = new Map();
    this.#recovering.clear();
  }

  cursors(): readonly RankPlace[] {
    return [...this.#cursors.values()].filter((cursor) => !this.#recovering.has(keyOf(cursor)));
  }

  ranks(): readonly RankId[] {
    return this.#workers.ranks;
  }

  async recover(rank: RankId): Promise<void> {
    const key = keyOf(rank);
    const generation = this.#generation;
    this.#recovering.set(key, []);
    await new Promise(setImmediate);
    if (generation !== this.#generation) throw new Error('void');
    const { blocks, lastEventId } = this.#workers.dump(rank);
    await new Promise(setImmediate); // the answer is on its way, and events go on
    if (generation !== this.#generation) throw new Error('void');
    this.dumps++;
    this.#held.set(key, new Set(blocks));
    this.#cursors.set(key, { ...rank, eventId: lastEventId, publisherId: undefined });
    const waiting = this.#recovering.get(key) ?? [];
    this.#recovering.delete(key);
    for (const event of waiting) this.#take(event);
  }

  content(): Record<string, readonly number[]> {
    return toSorted(this.#held);
  }

  #of(key: string): Set<number> {
    const held = this.#held.get(key) ?? new Set<number>();
    this.#held.set(key, held);
    return held;
  }
}

function change(held: Set<number>, kind: BlockEvent['kind'], block: number): void {
  if (kind === 'stored') held.add(block);
  else if (kind === 'removed') held.delete(block);
  else held.clear();
}

function toSorted(held: ReadonlyMap<string, ReadonlySet<number>>): Record<string, readonly number[]> {
  const sorted = [...held].filter(([, blocks]) => blocks.size > 0).sort(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(sorted.map(([key, blocks]) => [key, [...blocks].sort((left, right) => left - right)]));
}
