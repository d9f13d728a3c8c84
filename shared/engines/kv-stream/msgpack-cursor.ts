/** The bytes are no msgpack, or not of the shape that was asked for. */
export class MsgpackError extends Error {
  override readonly name = 'MsgpackError';
}

/** Deepest nesting that is read; an engine's events have five levels. */
const DEPTH_MAX = 32;

/**
 * Reads msgpack value by value, so that hashes and token ids go straight into typed arrays: a 64-bit number costs no
 * bigint and a list of ids no list of numbers. Every read throws `MsgpackError` where the shape differs.
 */
export class MsgpackCursor {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  /** Whether the next value is nil; it is read then. */
  nil(): boolean {
    if (this.#peek() !== 0xc0) return false;
    this.#at++;
    return true;
  }

  isArray(): boolean {
    const type = this.#peek();
    return type >> 4 === 0x9 || type === 0xdc || type === 0xdd;
  }

  isMap(): boolean {
    const type = this.#peek();
    return type >> 4 === 0x8 || type === 0xde || type === 0xdf;
  }

  isText(): boolean {
    const type = this.#peek();
    return type >> 5 === 0x5 || (type >= 0xd9 && type <= 0xdb);
  }

  /** Entries of the array that starts here. */
  array(): number {
    const type = this.#next();
    if (type >> 4 === 0x9) return type & 0x0f;
    if (type === 0xdc || type === 0xdd) return this.#bounded(this.#unsigned(type - 0xdb));
    throw this.#unexpected('a list', type);
  }

  /** Pairs of the map that starts here. */
  map(): number {
    const type = this.#next();
    if (type >> 4 === 0x8) return type & 0x0f;
    if (type === 0xde || type === 0xdf) return this.#bounded(this.#unsigned(type - 0xdd));
    throw this.#unexpected('a map', type);
  }

  text(): string {
    const type = this.#next();
    const isShort = type >> 5 === 0x5;
    if (!isShort && (type < 0xd9 || type > 0xdb)) throw this.#unexpected('a text', type);
    const length = isShort ? type & 0x1f : this.#unsigned(type - 0xd9);
    return Buffer.from(this.#slice(length)).toString('utf8');
  }

  /** An integer of any width that a double holds exactly. */
  integer(): number {
    const type = this.#next();
    if (type < 0x80) return type;
    if (type >= 0xe0) return type - 0x100;
    switch (type) {
      case 0xcc:
      case 0xcd:
      case 0xce:
        return this.#unsigned(type - 0xcc);
      case 0xcf:
        return this.#safe(this.#take(8, (at) => this.#view.getBigUint64(at)));
      case 0xd0:
        return this.#take(1, (at) => this.#view.getInt8(at));
      case 0xd1:
        return this.#take(2, (at) => this.#view.getInt16(at));
      case 0xd2:
        return this.#take(4, (at) => this.#view.getInt32(at));
      case 0xd3:
        return this.#safe(this.#take(8, (at) => this.#view.getBigInt64(at)));
      default:
        throw this.#unexpected('a whole number', type);
    }
  }

  /** A number of any type. */
  number(): number {
    const type = this.#peek();
    if (type !== 0xca && type !== 0xcb) return this.integer();
    this.#at++;
    return type === 0xca
      ? this.#take(4, (at) => this.#view.getFloat32(at))
      : this.#take(8, (at) => this.#view.getFloat64(at));
  }

  /**
   * A block hash as a pair of u32 halves into `pairs[at]` and `pairs[at + 1]`, low half first: an integer, signed ones bit
   * for bit, or the last 8 bytes of a binary one, big-endian.
   */
  hash(pairs: Uint32Array, at: number): void {
    const type = this.#peek();
    if (type === 0xcf || type === 0xd3) {
      const start = this.#need(9) + 1;
      this.#at += 9;
      pairs[at] = this.#view.getUint32(start + 4);
      pairs[at + 1] = this.#view.getUint32(start);
    } else if (type >= 0xc4 && type <= 0xc6) {
      const bytes = this.binary();
      if (bytes.length < 8) throw new MsgpackError(`a block hash of ${bytes.length} bytes`);
      const end = bytes.byteOffset - this.#bytes.byteOffset + bytes.length;
      pairs[at] = this.#view.getUint32(end - 4);
      pairs[at + 1] = this.#view.getUint32(end - 8);
    } else {
      const value = this.integer();
      pairs[at] = value >>> 0;
      pairs[at + 1] = Math.floor(value / 0x1_0000_0000) >>> 0;
    }
  }

  binary(): Uint8Array {
    const type = this.#next();
    if (type < 0xc4 || type > 0xc6) throw this.#unexpected('bytes', type);
    return this.#slice(this.#unsigned(type - 0xc4));
  }

  /** Any value: texts, numbers (of 64 bits as bigints), booleans, nil as null, bytes, lists of them, maps with text keys. */
  value(depth = 0): unknown {
    if (depth > DEPTH_MAX) throw new MsgpackError('the value is nested too deeply');
    const type = this.#peek();
    if (this.nil()) return null;
    if (type === 0xc2 || type === 0xc3) {
      this.#at++;
      return type === 0xc3;
    }
    if (type === 0xcf || type === 0xd3) {
      this.#at++;
      return this.#take(8, (at) => (type === 0xcf ? this.#view.getBigUint64(at) : this.#view.getBigInt64(at)));
    }
    if (this.isText()) return this.text();
    if (type >= 0xc4 && type <= 0xc6) return this.binary();
    if (this.isArray()) return Array.from({ length: this.array() }, () => this.value(depth + 1));
    if (!this.isMap()) return this.number();
    const entries: [string, unknown][] = [];
    for (let left = this.map(); left > 0; left--) entries.push([String(this.value(depth + 1)), this.value(depth + 1)]);
    return Object.fromEntries(entries);
  }

  #peek(): number {
    this.#need(1);
    return this.#bytes[this.#at]!;
  }

  #next(): number {
    const type = this.#peek();
    this.#at++;
    return type;
  }

  /** A number of 1, 2 or 4 bytes: 2 to the power of `power`. */
  #unsigned(power: number): number {
    const at = this.#need(1 << power);
    this.#at += 1 << power;
    if (power === 0) return this.#bytes[at]!;
    return power === 1 ? this.#view.getUint16(at) : this.#view.getUint32(at);
  }

  #take<T>(width: number, read: (at: number) => T): T {
    const at = this.#need(width);
    this.#at += width;
    return read(at);
  }

  #slice(length: number): Uint8Array {
    const at = this.#need(length);
    this.#at += length;
    return this.#bytes.subarray(at, at + length);
  }

  /** Where `count` bytes lie. */
  #need(count: number): number {
    if (this.#at + count > this.#bytes.length) throw new MsgpackError('the message ends too early');
    return this.#at;
  }

  /** No list has more entries than bytes are left: a wrong length must not fill the memory. */
  #bounded(count: number): number {
    if (count > this.#bytes.length - this.#at) throw new MsgpackError('the message ends too early');
    return count;
  }

  #safe(value: bigint): number {
    const number = Number(value);
    if (!Number.isSafeInteger(number)) throw new MsgpackError(`${value} is too large for a number here`);
    return number;
  }

  #unexpected(wanted: string, type: number): MsgpackError {
    return new MsgpackError(`expected ${wanted}, found type 0x${type.toString(16)} at byte ${this.#at - 1}`);
  }
}
