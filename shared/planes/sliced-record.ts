import { turnOfItsOwn } from '../concurrency/index.ts';

/** Length from which a record is decoded in slices. One of this length takes a millisecond or two. */
export const LARGE_RECORD_BYTES = 64 << 10;
/** Values read in one slice: one to three milliseconds, without garbage collection. */
const SLICE_STEPS = 10_000;
const DEPTH_MAX = 512;

/** Returns the record in `bytes`, read one slice per turn of the event loop. Rejects as `MsgpackReader.read` throws. */
export async function readSliced(bytes: Buffer, options?: MsgpackReaderOptions): Promise<unknown> {
  const reader = new MsgpackReader(bytes, options);
  do await turnOfItsOwn();
  while (!reader.read());
  return reader.value;
}

/**
 * Largest number of lists and maps of one record, and of entries of each: every prompt token of a long context with its
 * alternatives fits.
 */
const CONTAINERS_MAX = 1 << 20;
const ENTRIES_MAX = 1 << 20;
/** Largest number of entries of one map: an object with more keys takes a turn to grow. */
const KEYS_MAX = 1 << 17;
/** Bytes of a text, or of copied bytes, that count as one more step. */
const BYTES_PER_STEP = 256;

type Container = unknown[] | Record<string, unknown>;

interface Level {
  readonly container: Container;
  /** Number of entries still to come; pairs of a map count once. */
  left: number;
  /** Key of the pair whose value comes next. */
  key: string | undefined;
}

interface MsgpackReaderOptions {
  /** Whether byte strings of the value are views of the read bytes. @default false, they are copied */
  readonly views?: boolean;
  /** Whether other bytes may follow the value: binary, beginning with a zero byte. @default false */
  readonly leading?: boolean;
}

/**
 * Reads one msgpack value in steps, so that a large one need not be read in one turn of the event loop. The result is
 * that of `decodeRecord`: maps as objects, 64-bit integers exact, bytes copied unless `views` says otherwise. It
 * refuses a length beyond the bytes that are left, types of an extension, and nesting deeper than 512. It also refuses
 * more than 2^20 lists and maps, more than 2^20 entries of a list, and more than 2^17 of a map.
 *
 * @example
 * const reader = new MsgpackReader(bytes);
 * while (!reader.read(10_000)) await nextTurn();
 * const record = reader.value;
 */
export class MsgpackReader {
  readonly #bytes: Buffer;
  readonly #views: boolean;
  readonly #isLeading: boolean;
  readonly #levels: Level[] = [];
  #at = 0;
  #steps = 0;
  #root: unknown;
  #hasRoot = false;
  #containers = 0;
  /** Bytes that are not all copied yet: they follow each other up to `#at`. */
  #copying: { readonly into: Buffer; copied: number } | undefined;

  /** @param bytes one value; must not be written before it has been read, and with `views` never */
  constructor(bytes: Buffer, { views = false, leading = false }: MsgpackReaderOptions = {}) {
    this.#bytes = bytes;
    this.#views = views;
    this.#isLeading = leading;
  }

  /** Offset at which the value ends, once `read` has returned true. */
  get end(): number {
    return this.#at;
  }

  /** The value, once `read` has returned true. */
  get value(): unknown {
    return this.#root;
  }

  /**
   * Reads on for about `steps` values. Returns true when the value is complete.
   *
   * @throws RangeError for bytes that are not exactly one value; the reader is then of no further use
   */
  read(steps = SLICE_STEPS): boolean {
    this.#steps = steps;
    while (this.#steps > 0) {
      if (this.#copying !== undefined) {
        this.#copyOn(this.#copying);
        continue;
      }
      const level = this.#levels.at(-1);
      if (level === undefined) {
        if (this.#hasRoot) return this.#finish();
        this.#hasRoot = true;
        this.#root = this.#next();
      } else if (level.left === 0) this.#levels.pop();
      else if (Array.isArray(level.container)) {
        level.left--;
        level.container.push(this.#next());
      } else if (level.key === undefined) level.key = keyOf(this.#next());
      else {
        const { key } = level;
        level.left--;
        level.key = undefined;
        level.container[key] = this.#next();
      }
      this.#steps--;
    }
    return false;
  }

  #finish(): boolean {
    if (this.#at < this.#bytes.length && !this.#isLeading) throw new RangeError('extra bytes after a msgpack record');
    return true;
  }

  /** Reads the next plain value; for a list or map, the empty container, whose entries follow. */
  #next(): unknown {
    const type = this.#bytes[this.#take(1)]!; // within the bytes
    if (type < 0x80) return type;
    if (type >= 0xe0) return type - 0x100;
    if (type < 0x90) return this.#open({}, type & 0x0f, 2);
    if (type < 0xa0) return this.#open([], type & 0x0f, 1);
    if (type < 0xc0) return this.#text(type & 0x1f);
    const bytes = this.#bytes;
    switch (type) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xc4:
        return this.#copy(bytes[this.#take(1)]!);
      case 0xc5:
        return this.#copy(bytes.readUInt16BE(this.#take(2)));
      case 0xc6:
        return this.#copy(bytes.readUInt32BE(this.#take(4)));
      case 0xca:
        return bytes.readFloatBE(this.#take(4));
      case 0xcb:
        return bytes.readDoubleBE(this.#take(8));
      case 0xcc:
        return bytes[this.#take(1)];
      case 0xcd:
        return bytes.readUInt16BE(this.#take(2));
      case 0xce:
        return bytes.readUInt32BE(this.#take(4));
      case 0xcf:
        return plain(bytes.readBigUInt64BE(this.#take(8)));
      case 0xd0:
        return bytes.readInt8(this.#take(1));
      case 0xd1:
        return bytes.readInt16BE(this.#take(2));
      case 0xd2:
        return bytes.readInt32BE(this.#take(4));
      case 0xd3:
        return plain(bytes.readBigInt64BE(this.#take(8)));
      case 0xd9:
        return this.#text(bytes[this.#take(1)]!);
      case 0xda:
        return this.#text(bytes.readUInt16BE(this.#take(2)));
      case 0xdb:
        return this.#text(bytes.readUInt32BE(this.#take(4)));
      case 0xdc:
        return this.#open([], bytes.readUInt16BE(this.#take(2)), 1);
      case 0xdd:
        return this.#open([], bytes.readUInt32BE(this.#take(4)), 1);
      case 0xde:
        return this.#open({}, bytes.readUInt16BE(this.#take(2)), 2);
      case 0xdf:
        return this.#open({}, bytes.readUInt32BE(this.#take(4)), 2);
      default:
        throw new RangeError(`msgpack type 0x${type.toString(16)}`);
    }
  }

  /** @param bytesPerEntry smallest size of an entry: a count that promises more than can come is refused */
  #open(container: Container, count: number, bytesPerEntry: number): Container {
    if (count * bytesPerEntry > this.#bytes.length - this.#at)
      throw new RangeError('a msgpack record that ends too early');
    if (count > (bytesPerEntry === 1 ? ENTRIES_MAX : KEYS_MAX) || ++this.#containers > CONTAINERS_MAX)
      throw new RangeError('a msgpack record of too many lists and maps, or entries of one');
    if (count === 0) return container;
    if (this.#levels.length === DEPTH_MAX) throw new RangeError('a msgpack record that is nested too deeply');
    this.#levels.push({ container, left: count, key: undefined });
    return container;
  }

  #text(length: number): string {
    const at = this.#takeMany(length);
    return this.#bytes.toString('utf8', at, at + length);
  }

  #copy(length: number): Buffer {
    const at = this.#take(length);
    const bytes = this.#bytes.subarray(at, at + length);
    if (this.#views) return bytes;
    if (length <= BYTES_PER_STEP) return Buffer.from(bytes);
    const into = Buffer.allocUnsafe(length);
    this.#copying = { into, copied: 0 };
    return into;
  }

  /** Copies as far as there are steps left. */
  #copyOn(copying: { readonly into: Buffer; copied: number }): void {
    const { into, copied } = copying;
    const from = this.#at - into.length + copied;
    const length = Math.min(into.length - copied, Math.ceil(this.#steps * BYTES_PER_STEP));
    this.#bytes.copy(into, copied, from, from + length);
    copying.copied += length;
    this.#steps -= length / BYTES_PER_STEP;
    if (copying.copied === into.length) this.#copying = undefined;
  }

  #takeMany(length: number): number {
    this.#steps -= Math.floor(length / BYTES_PER_STEP);
    return this.#take(length);
  }

  /** Returns the offset of the next `length` bytes. */
  #take(length: number): number {
    const at = this.#at;
    if (length > this.#bytes.length - at) throw new RangeError('a msgpack record that ends too early');
    this.#at = at + length;
    return at;
  }
}

function plain(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** Returns the key of an object: never one that names its prototype. */
function keyOf(value: unknown): string {
  if (typeof value === 'object' && value !== null) throw new RangeError('a msgpack map with a key that is not a text');
  return value === '__proto__' ? '__proto_' : String(value);
}
