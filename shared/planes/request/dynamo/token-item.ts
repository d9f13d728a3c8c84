import type { DynamoCodec } from './codec.ts';
import { TWO_PART_PREFIX_BYTES } from './two-part.ts';

/*
 * An item that has only token ids is written without an object for it:
 *
 *     prefix of two parts | { data: { data: { token_ids: [ids], index } }, complete_final: false }
 */

/** Map of 2: "data", map of 1: "data", map of 2: "token_ids", and the mark of a list with a length of 32 bits. */
const HEAD = Buffer.concat([
  Buffer.from([0x82, 0xa4]),
  Buffer.from('data'),
  Buffer.from([0x81, 0xa4]),
  Buffer.from('data'),
  Buffer.from([0x82, 0xa9]),
  Buffer.from('token_ids'),
  Buffer.from([0xdd]),
]);
/** "index", and the mark of an integer of 32 bits. */
const INDEX = Buffer.concat([Buffer.from([0xa5]), Buffer.from('index'), Buffer.from([0xce])]);
/** "complete_final": false. */
const TAIL = Buffer.concat([Buffer.from([0xae]), Buffer.from('complete_final'), Buffer.from([0xc2])]);

const U32 = 0xce;

/** Returns the message of an item with the ids `ids[start .. start + count)` of a choice. */
export function tokenItem(
  codec: DynamoCodec,
  choice: number,
  ids: ArrayLike<number>,
  start: number,
  count: number,
): Buffer {
  return codec === 'msgpack' ? packed(choice, ids, start, count) : text(choice, ids, start, count);
}

function packed(choice: number, ids: ArrayLike<number>, start: number, count: number): Buffer {
  const bodyBytes = HEAD.length + 4 + 5 * count + INDEX.length + 4 + TAIL.length;
  const bytes = Buffer.allocUnsafe(TWO_PART_PREFIX_BYTES + bodyBytes);
  let at = writePrefix(bytes, bodyBytes);
  at += HEAD.copy(bytes, at);
  at = bytes.writeUInt32BE(count, at);
  for (let from = start; from < start + count; from++) {
    bytes[at] = U32;
    at = bytes.writeUInt32BE(ids[from] as number, at + 1); // inside the caller's range
  }
  at += INDEX.copy(bytes, at);
  at = bytes.writeUInt32BE(choice, at);
  TAIL.copy(bytes, at);
  return bytes;
}

function text(choice: number, ids: ArrayLike<number>, start: number, count: number): Buffer {
  let list = '';
  for (let from = start; from < start + count; from++) list += from === start ? ids[from] : `,${ids[from]}`;
  const body = `{"data":{"data":{"token_ids":[${list}],"index":${choice}}},"complete_final":false}`;
  const bytes = Buffer.allocUnsafe(TWO_PART_PREFIX_BYTES + body.length);
  bytes.write(body, writePrefix(bytes, body.length), 'latin1');
  return bytes;
}

/** Writes the prefix of a message without a header and without a checksum. Returns the offset after it. */
function writePrefix(bytes: Buffer, bodyBytes: number): number {
  bytes.fill(0, 0, TWO_PART_PREFIX_BYTES);
  bytes.writeUInt32BE(bodyBytes, 12);
  return TWO_PART_PREFIX_BYTES;
}
