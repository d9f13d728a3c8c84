import { BlockIndex, RankTable } from '../../../shared/block-index/index.ts';
import type { KvEvent } from '../../../shared/engines/index.ts';
import type { RankId } from '../../../shared/router/index.ts';
import { toRouterEvent } from '../../../shared/worker/events/event-records.ts';
import { RankJournal } from '../../../shared/worker/events/rank-journal.ts';
import type { BlockChange, BlockChangeSink, RecoveryResponse } from '../../../shared/worker-events/index.ts';
import { decodeRouterEvent, type RankEvent } from '../../../shared/worker-events/kv-events.ts';
import type { RecoveryAnswer } from '../../../shared/worker-events/recovery.ts';

const WORKER_DECIMAL = '2748'; // 0xabc
/** The rank that `ScriptedRank` plays. */
export const RANK: RankId = { workerId: 'abc', dpRank: 0 };

/** One rank of a worker. Its journal is the worker's own code; the test names its blocks by number. */
export class ScriptedRank {
  readonly index: BlockIndex;
  readonly rank: number;
  #journal: RankJournal;
  #publisherId = 1;

  constructor() {
    const ranks = new RankTable();
    this.index = new BlockIndex({ ranks });
    this.rank = ranks.intern('abc', 0);
    this.#journal = this.#open();
  }

  get publisherId(): string {
    return `p${this.#publisherId}`;
  }

  get lastEventId(): number {
    return this.#journal.lastEventId;
  }

  /** Starts another process under the same worker id, with an empty cache. */
  restart(): void {
    this.#publisherId++;
    this.index.cleared(this.rank);
    this.#journal = this.#open();
  }

  stored(parent: number | undefined, ...blocks: readonly number[]): RankEvent {
    const parentHash = parent === undefined ? undefined : ([parent, 1] as const);
    return this.#publish({
      kind: 'stored',
      dpRank: 0,
      parentHash,
      blockHashes: names(blocks),
      tokensHashes: contents(blocks),
    });
  }

  removed(...blocks: readonly number[]): RankEvent {
    return this.#publish({ kind: 'removed', dpRank: 0, blockHashes: names(blocks) });
  }

  cleared(): RankEvent {
    return this.#publish({ kind: 'cleared', dpRank: 0 });
  }

  /** Returns what a router reads when it asks for events from `start` on. */
  answer(start?: number, end?: number): RecoveryAnswer {
    const request = {
      worker_id: WORKER_DECIMAL,
      dp_rank: 0,
      ...(start === undefined ? {} : { start_event_id: start }),
      ...(end === undefined ? {} : { end_event_id: end }),
    };
    return decodeAnswer([...this.#journal.answer(request)].flatMap((part) => part ?? []));
  }

  #open(): RankJournal {
    const { index, rank, publisherId } = this;
    return new RankJournal({ dpRank: 0, index, rank, workerId: WORKER_DECIMAL, publisherId });
  }

  #publish(event: KvEvent): RankEvent {
    const decoded = decodeRouterEvent(toRouterEvent(WORKER_DECIMAL, this.#journal.append(event), event));
    if (typeof decoded === 'string') throw new Error(decoded);
    return decoded;
  }
}

/** The parts of an answer as one. */
export function decodeAnswer(parts: readonly RecoveryResponse[]): RecoveryAnswer {
  const publisherId = parts[0]?.publisher_id;
  const [first] = parts;
  if (first !== undefined && 'TooNew' in first) {
    return { kind: 'too_new', newestEventId: first.TooNew.newest_available, publisherId };
  }
  const events: RankEvent[] = [];
  let answer: RecoveryAnswer = { kind: 'refused', reason: JSON.stringify(first), publisherId };
  for (const part of parts) {
    const [kind, body] =
      'Events' in part
        ? (['events', part.Events] as const)
        : 'TreeDump' in part
          ? (['dump', part.TreeDump] as const)
          : [];
    if (kind === undefined) continue;
    for (const record of body.events) {
      const event = decodeRouterEvent(record);
      if (typeof event === 'string') throw new Error(event);
      events.push(event);
    }
    answer = { kind, events, lastEventId: body.last_event_id, publisherId };
  }
  return answer;
}

/** An index with one rank that takes the changes of `RANK`, as the router has it. */
export class WatchedIndex implements BlockChangeSink {
  readonly index: BlockIndex;
  readonly rank: number;
  readonly #ranks = new RankTable();

  constructor() {
    this.index = new BlockIndex({ ranks: this.#ranks });
    this.rank = this.#ranks.intern(RANK.workerId, RANK.dpRank);
  }

  changed(workerId: string, dpRank: number, change: BlockChange): void {
    const rank = this.#ranks.find(workerId, dpRank);
    if (rank === undefined) throw new Error(`no rank ${dpRank} of worker ${workerId}`);
    applyTo(this.index, rank, change);
  }

  /** Numbers of the blocks held, ascending. */
  get blocks(): number[] {
    return heldBy(this.index, this.rank);
  }
}

export function applyTo(index: BlockIndex, rank: number, change: BlockChange): void {
  if (change.kind === 'stored') index.stored(rank, change.tier, change.parent, change.blockHashes, change.tokensHashes);
  else if (change.kind === 'removed') index.removed(rank, change.tier, change.blockHashes);
  else index.cleared(rank);
}

/** Numbers of the blocks that the rank holds, ascending. */
export function heldBy(index: BlockIndex, rank: number): number[] {
  const runs = [...index.dump(rank)].flatMap((slice) => slice.runs);
  const blocks = runs.flatMap(({ blockHashes }) => [...blockHashes].filter((_, at) => at % 2 === 0));
  return blocks.sort((a, b) => a - b);
}

/** Block `n` is named (n, 1) and holds (n, 2). */
function names(blocks: readonly number[]): Uint32Array {
  return Uint32Array.from(blocks.flatMap((block) => [block, 1]));
}

function contents(blocks: readonly number[]): Uint32Array {
  return Uint32Array.from(blocks.flatMap((block) => [block, 2]));
}
