import { DynamoAnswerReader, type OutputSink } from '../../../protocol/index.ts';
import { isRecord } from '../../../records/index.ts';

/** Longest item that is learned, in bytes. */
const ITEM_BYTES_MAX = 512;
/** Forms of items that are known at once; workers of a fleet write one or two. */
const FORMS_MAX = 4;
/** Token ids of a short list in msgpack. */
const IDS_MAX = 15;
const KEY = Buffer.from('\xa9token_ids', 'latin1');

/** Bytes of an item around its token ids. Items with the same bytes there differ only in their ids. */
interface Form {
  readonly before: Buffer;
  readonly after: Buffer;
  readonly choice: number;
}

/**
 * Reads items that have only token ids, as nearly all have, without an object for each. It learns the bytes around the
 * ids from the first such item of a worker. Every item with other bytes there is decoded as usual.
 */
export class PlainItems {
  /** Ids of the item that was read last; reused. */
  readonly ids = new Uint32Array(IDS_MAX);
  /** Choice of that item. */
  choice = 0;
  #forms: readonly Form[] = [];

  /** Reads the item in `bytes[start .. end)`. Returns the number of its ids; 0 if it is not of a known form. */
  read(bytes: Buffer, start: number, end: number): number {
    for (let at = 0; at < this.#forms.length; at++) {
      const form = this.#forms[at] as Form; // in range
      const idsAt = start + form.before.length;
      const idsEnd = end - form.after.length;
      if (idsAt >= idsEnd || bytes.compare(form.before, 0, form.before.length, start, idsAt) !== 0) continue;
      const count = this.#readIds(bytes, idsAt, idsEnd);
      if (count === 0 || bytes.compare(form.after, 0, form.after.length, idsEnd, end) !== 0) continue;
      this.choice = form.choice;
      return count;
    }
    return 0;
  }

  /** Learns the form of a decoded item, if it has only token ids. @param item the value of `bytes[start .. end)` */
  learn(item: unknown, bytes: Buffer, start: number, end: number): void {
    if (end - start > ITEM_BYTES_MAX) return;
    const tokens = tokensOf(item);
    const key = bytes.indexOf(KEY, start);
    if (tokens === undefined || key < 0 || key >= end) return;
    const idsAt = key + KEY.length;
    for (let idsEnd = idsAt + 1; idsEnd <= end; idsEnd++) {
      if (this.#readIds(bytes, idsAt, idsEnd) !== tokens.count) continue;
      const before = Buffer.from(bytes.subarray(start, idsAt));
      const form = { before, after: Buffer.from(bytes.subarray(idsEnd, end)), choice: tokens.choice };
      this.#forms = [form, ...this.#forms].slice(0, FORMS_MAX);
      return;
    }
  }

  /** Reads a short list of ids that fills `bytes[at .. end)`. Returns their number; 0 if it is anything else. */
  #readIds(bytes: Buffer, at: number, end: number): number {
    const count = (bytes[at] as number) - 0x90;
    if (count <= 0 || count > IDS_MAX) return 0;
    let next = at + 1;
    for (let each = 0; each < count; each++) {
      if (next >= end) return 0;
      const first = bytes[next] as number; // in range
      const width = first < 0x80 ? 0 : first >= 0xcc && first <= 0xce ? 1 << (first - 0xcc) : -1;
      if (width < 0 || next + 1 + width > end) return 0;
      let id = width === 0 ? first : 0;
      for (let byte = next + 1; byte <= next + width; byte++) id = id * 256 + (bytes[byte] as number);
      this.ids[each] = id;
      next += 1 + width;
    }
    return next === end ? count : 0;
  }
}

/** Returns the choice and number of the tokens of an item that says nothing else; undefined for any other item. */
function tokensOf(item: unknown): { readonly choice: number; readonly count: number } | undefined {
  if (!isRecord(item) || item.complete_final !== false) return undefined;
  let tokens: { choice: number; count: number } | undefined;
  let others = 0;
  const sink: OutputSink = {
    tokens(choice, _ids, _start, count) {
      if (tokens !== undefined) others++;
      tokens = { choice, count };
    },
    output: () => void others++,
    end: () => void others++,
    fail: () => void others++,
  };
  new DynamoAnswerReader(sink).item(item.data);
  return others === 0 ? tokens : undefined;
}
