import { ComingBytes } from '../../../records/index.ts';

const HOLD_BYTES_MIN = 1024;
/** Length up to which the cutter assembles records in one shared buffer. */
const HOLD_BYTES_MAX = 64 << 10;
const NOTHING = Buffer.alloc(0);

/** Rules of a byte stream that is a sequence of records, each of which begins with its lengths. */
export interface RecordRules {
  /**
   * Returns the length of the record at `at`, of which `bytes[at .. end)` is there. If these bytes do not tell the
   * length yet, returns how many bytes tell more. Throws `WireFault` for a length beyond the limit.
   */
  lengthAt(bytes: Buffer, at: number, end: number): number;
  /** Takes the record `bytes[start .. end)`. It is valid only during the call, unless `isKept`. */
  take(bytes: Buffer, start: number, end: number, isKept: boolean): void;
}

/**
 * Cuts a byte stream into records, wherever its chunks end. It passes a record within one chunk on without a copy. It
 * assembles a record that crosses chunks in memory that grows with the bytes that arrive, not with the promised length.
 */
export class RecordCutter {
  readonly #rules: RecordRules;
  #hold = NOTHING;
  #heldBytes = 0;
  /** The large record that is arriving. */
  #coming: ComingBytes | undefined;
  /** Bytes that arrived while the cutter was paused. */
  #later: Buffer[] = [];
  #isPaused = false;
  #isStopped = false;
  #isCutting = false;

  constructor(rules: RecordRules) {
    this.#rules = rules;
  }

  /** Whether part of a record has arrived, but not all of it; for tests. */
  get isInside(): boolean {
    return this.#heldBytes > 0 || this.#coming !== undefined;
  }

  /** Whether what follows is kept. */
  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Stops for good. The taker of a record may call it. */
  stop(): void {
    this.#isStopped = true;
    this.#hold = NOTHING;
    this.#heldBytes = 0;
    this.#coming = undefined;
    this.#later = [];
  }

  /** Keeps everything that follows, until `resume`. The taker of a record may call it. */
  pause(): void {
    this.#isPaused = true;
  }

  /** Passes on what was kept. */
  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    if (this.#isCutting) return; // the loop that calls the taker goes on
    const later = this.#later;
    this.#later = [];
    for (let at = 0; at < later.length; at++) {
      if (this.#isPaused) this.#later.push(later[at] as Buffer);
      else this.push(later[at] as Buffer);
    }
  }

  /** Takes the next bytes of the stream, which are valid only during the call. Throws what the rules throw. */
  push(chunk: Buffer): void {
    let at = 0;
    this.#isCutting = true;
    try {
      while (at < chunk.length && !this.#isStopped && !this.#isPaused) at = this.#cut(chunk, at);
    } finally {
      this.#isCutting = false;
    }
    if (at < chunk.length && !this.#isStopped) this.#later.push(Buffer.from(chunk.subarray(at)));
  }

  /** Cuts at most one record at `at`. Returns the offset at which the next bytes are. */
  #cut(chunk: Buffer, at: number): number {
    if (this.#coming !== undefined) return at + this.#add(this.#coming, chunk, at);
    if (this.#heldBytes > 0) return this.#fill(chunk, at);
    const length = this.#rules.lengthAt(chunk, at, chunk.length);
    const end = at + length;
    if (end <= chunk.length) {
      this.#rules.take(chunk, at, end, false);
      return end;
    }
    if (length <= HOLD_BYTES_MAX) return this.#keep(chunk, at, chunk.length);
    return at + this.#add(new ComingBytes(length), chunk, at);
  }

  /** Adds bytes to the held record, as many as are surely its own, and passes it on when it is complete. */
  #fill(chunk: Buffer, at: number): number {
    const next = this.#keep(chunk, at, at + this.#rules.lengthAt(this.#hold, 0, this.#heldBytes) - this.#heldBytes);
    const held = this.#heldBytes;
    const length = this.#rules.lengthAt(this.#hold, 0, held);
    if (length > HOLD_BYTES_MAX) {
      this.#heldBytes = 0;
      this.#add(new ComingBytes(length), this.#hold.subarray(0, held), 0);
    } else if (length === held) {
      this.#heldBytes = 0;
      this.#rules.take(this.#hold, 0, held, false);
    }
    return next;
  }

  /** Adds bytes to a large record, and passes it on when it is complete. Returns how many bytes it took. */
  #add(coming: ComingBytes, chunk: Buffer, at: number): number {
    this.#coming = coming;
    const taken = coming.take(chunk, at);
    if (coming.isWhole) {
      this.#coming = undefined;
      this.#rules.take(coming.bytes, 0, coming.wanted, true);
    }
    return taken;
  }

  /** Copies `chunk[from .. to)`, or as much of it as there is, to the end of the held bytes. */
  #keep(chunk: Buffer, from: number, to: number): number {
    const end = Math.min(to, chunk.length);
    const needed = this.#heldBytes + end - from;
    if (needed > this.#hold.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#hold.length, HOLD_BYTES_MIN));
      this.#hold.copy(grown, 0, 0, this.#heldBytes);
      this.#hold = grown;
    }
    chunk.copy(this.#hold, this.#heldBytes, from, end);
    this.#heldBytes = needed;
    return end;
  }
}
