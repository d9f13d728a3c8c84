import { bytesOf, type RecordPieces } from '../record-pieces.ts';

/** Where a backlog's entries go once there is credit. */
export interface BacklogOutlet {
  tokens(streamId: number, choice: number, ids: ArrayLike<number>, start: number, count: number): void;
  item(streamId: number, record: RecordPieces): void;
}

interface TokenRun {
  readonly choice: number;
  readonly ids: number[];
  sent: number;
}

const TOKENS_MAX = 1 << 20;
const ITEM_BYTES_MAX = 64 << 20;

/** What a worker made for a stream that has no credit, in order. Holds at most 2^20 tokens and 64 MiB of items. */
export class Backlog {
  #entries: (TokenRun | RecordPieces)[] = [];
  #tokens = 0;
  #itemBytes = 0;

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  /** Keeps tokens; false when the bound is reached and nothing was kept. */
  addTokens(choice: number, ids: ArrayLike<number>, start: number, count: number): boolean {
    if (this.#tokens + count > TOKENS_MAX) return false;
    this.#tokens += count;
    let run = this.#entries.at(-1);
    if (run === undefined || isRecord(run) || run.choice !== choice) {
      run = { choice, ids: [], sent: 0 };
      this.#entries.push(run);
    }
    for (let at = start; at < start + count; at++) run.ids.push(ids[at]!); // within the caller's range
    return true;
  }

  /** Keeps one encoded item; false when the bound is reached and it was not kept. */
  addItem(record: RecordPieces): boolean {
    const bytes = bytesOf(record);
    if (this.#itemBytes + bytes > ITEM_BYTES_MAX) return false;
    this.#itemBytes += bytes;
    this.#entries.push(record);
    return true;
  }

  /** Sends what `credit` allows, oldest first, and returns the credit left. */
  drain(credit: number, streamId: number, outlet: BacklogOutlet): number {
    let left = credit;
    let done = 0;
    while (left > 0 && done < this.#entries.length) {
      const entry = this.#entries[done]!; // done < length
      if (isRecord(entry)) {
        this.#itemBytes -= bytesOf(entry);
        outlet.item(streamId, entry);
        left--;
        done++;
        continue;
      }
      const count = Math.min(left, entry.ids.length - entry.sent);
      outlet.tokens(streamId, entry.choice, entry.ids, entry.sent, count);
      entry.sent += count;
      this.#tokens -= count;
      left -= count;
      if (entry.sent === entry.ids.length) done++;
    }
    this.#entries.splice(0, done);
    return left;
  }

  clear(): void {
    this.#entries = [];
    this.#tokens = 0;
    this.#itemBytes = 0;
  }
}

function isRecord(entry: TokenRun | RecordPieces): entry is RecordPieces {
  return Array.isArray(entry);
}
