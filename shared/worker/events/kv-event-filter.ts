import type { KvEvent } from '../../engines/index.ts';
import { BlockCopies } from './block-copies.ts';

type Stored = Extract<KvEvent, { kind: 'stored' }>;
type Removed = Extract<KvEvent, { kind: 'removed' }>;

/**
 * Turns the events of an engine that may hold several copies of a block into events of a set: only the first store and the
 * last removal of a block go on. A run of stores that has copies in the middle is cut there.
 */
export class KvEventFilter {
  readonly #copiesOfRank = new Map<string, BlockCopies>();

  /** The events to publish, in order. Returns the same array when nothing was dropped. */
  apply(events: readonly KvEvent[]): readonly KvEvent[] {
    const kept: KvEvent[] = [];
    for (const event of events) {
      if (event.kind === 'stored') this.#store(event, kept);
      else if (event.kind === 'removed') this.#remove(event, kept);
      else {
        this.#copiesOfRank.clear(); // the engine forgets all ranks at once
        kept.push(event);
      }
    }
    return kept;
  }

  #store(event: Stored, kept: KvEvent[]): void {
    const { blockHashes: hashes } = event;
    const copies = this.#copiesOf(event);
    let start = 0; // first block of the run not yet given on
    for (let at = 0; at < hashes.length; at += 2) {
      if (copies.add(hashes[at]!, hashes[at + 1]!)) continue;
      if (at > start) kept.push(cutStored(event, start, at));
      start = at + 2;
    }
    if (start === 0) kept.push(event);
    else if (start < hashes.length) kept.push(cutStored(event, start, hashes.length));
  }

  #remove(event: Removed, kept: KvEvent[]): void {
    const { blockHashes: hashes } = event;
    const copies = this.#copiesOf(event);
    const last = new Uint32Array(hashes.length);
    let count = 0;
    for (let at = 0; at < hashes.length; at += 2) {
      if (!copies.remove(hashes[at]!, hashes[at + 1]!)) continue;
      last[count++] = hashes[at]!;
      last[count++] = hashes[at + 1]!;
    }
    if (count === hashes.length) kept.push(event);
    else if (count > 0) kept.push({ ...event, blockHashes: last.slice(0, count) });
  }

  /** Each tier of a rank holds copies of its own. */
  #copiesOf({ dpRank, tier = 'device' }: Stored | Removed): BlockCopies {
    const key = `${dpRank}/${tier}`;
    let copies = this.#copiesOfRank.get(key);
    if (copies === undefined) {
      copies = new BlockCopies();
      this.#copiesOfRank.set(key, copies);
    }
    return copies;
  }
}

/** The blocks at words `start .. end` of a store; their parent is the block before them. */
function cutStored(event: Stored, start: number, end: number): Stored {
  return {
    ...event,
    parentHash: start === 0 ? event.parentHash : [event.blockHashes[start - 2]!, event.blockHashes[start - 1]!],
    blockHashes: event.blockHashes.slice(start, end),
    tokensHashes: event.tokensHashes.slice(start, end),
  };
}
