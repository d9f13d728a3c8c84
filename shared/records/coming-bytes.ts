/** Room for a block: at least this many bytes, and at most this multiple of the bytes that have come. */
const ROOM_BYTES_MIN = 1024;
const GROWTH = 4;
/** Early bytes moved with each new part, so that a large block is not moved at once. */
const MOVED_BYTES_MIN = 64 << 10;
const NOTHING = Buffer.alloc(0);

/**
 * A block of bytes of a declared length that comes in parts. The declared length is not trusted: the room is at most
 * four times the bytes that have come, and the whole block gets its room only when a quarter has come. Earlier bytes
 * move there little by little.
 */
export class ComingBytes {
  readonly wanted: number;
  /**
   * Parts that came before there was room for the whole block, and the offset at which the rest of the first one
   * begins.
   */
  readonly #early: Buffer[] = [];
  #movedOfFirst = 0;
  #moved = 0;
  /** Buffer for the next bytes: the whole block, or another early part. */
  #room: Buffer = NOTHING;
  #roomAt = 0;
  #isWholeRoom = false;
  #length = 0;

  /** @param wanted number of bytes of the block */
  constructor(wanted: number) {
    this.wanted = wanted;
  }

  get isWhole(): boolean {
    return this.#length === this.wanted;
  }

  /** Number of bytes that have come. */
  get length(): number {
    return this.#length;
  }

  /** Copies the bytes that the block still needs from `chunk`, beginning at `from`. Returns how many it copied. */
  take(chunk: Buffer, from = 0): number {
    const taken = Math.min(chunk.length - from, this.wanted - this.#length);
    for (let at = from, end = from + taken; at < end; ) {
      if (this.#roomAt === this.#room.length) this.#makeRoom(end - at);
      const copied = chunk.copy(this.#room, this.#roomAt, at, end);
      this.#roomAt += copied;
      this.#length += copied;
      at += copied;
    }
    if (this.#isWholeRoom) this.#move(taken + MOVED_BYTES_MIN);
    return taken;
  }

  /** Returns the block once it is complete. */
  get bytes(): Buffer {
    this.#move(this.wanted);
    return this.#room;
  }

  #makeRoom(coming: number): void {
    if (this.#room.length > 0) this.#early.push(this.#room);
    const roomMax = Math.max(ROOM_BYTES_MIN, GROWTH * (this.#length + coming));
    this.#isWholeRoom = roomMax >= this.wanted;
    if (this.#isWholeRoom) {
      this.#room = Buffer.allocUnsafeSlow(this.wanted);
      this.#roomAt = this.#length;
    } else {
      const untilWhole = Math.ceil(this.wanted / GROWTH);
      this.#room = Buffer.allocUnsafeSlow(Math.min(roomMax, untilWhole) - this.#length);
      this.#roomAt = 0;
    }
  }

  #move(bytes: number): void {
    for (let left = bytes; left > 0; ) {
      const [first] = this.#early;
      if (first === undefined) return;
      const from = this.#movedOfFirst;
      const copied = first.copy(this.#room, this.#moved, from, Math.min(first.length, from + left));
      left -= copied;
      this.#moved += copied;
      this.#movedOfFirst += copied;
      if (this.#movedOfFirst < first.length) continue;
      this.#early.shift();
      this.#movedOfFirst = 0;
    }
  }
}

/** Returns a copy of `list` with room for `length`. @default twice as many */
export function grown<List extends Uint8Array | Uint32Array | Int32Array | Float64Array>(
  list: List,
  length = 2 * list.length,
): List {
  const larger = new (list.constructor as new (length: number) => List)(length);
  larger.set(list);
  return larger;
}

/** Returns `list` if it has room for `length`, otherwise a copy of at least twice the size. */
export function roomy<List extends Uint32Array | Int32Array | Float64Array>(list: List, length: number): List {
  return length <= list.length ? list : grown(list, Math.max(length, 2 * list.length));
}
