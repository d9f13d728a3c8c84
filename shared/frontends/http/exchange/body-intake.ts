import type { Transform } from 'node:stream';
import zlib, { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { overLimit, reasonOf, ServeError } from '../../../errors/index.ts';
import type { ByteBudget } from '../../inference/deps.ts';

/** Bytes of a chunk from which it is kept as it came: copying it would cost more than its own overhead. */
const LARGE_CHUNK_BYTES = 16 * 1024;
/** Largest size in bytes of the blocks into which small chunks are copied. */
const BLOCK_BYTES_MAX = 1024 * 1024;
const BLOCK_BYTES_MIN = 4 * 1024;

const NOTHING = new Uint8Array(0);

/**
 * Collects the bytes of a body. Small chunks are put together: a body in chunks of a byte would otherwise take 200
 * times its size.
 */
export class BodyBytes {
  #parts: Uint8Array[] = [];
  /** Block that is being filled; its first `#filled` bytes belong to the body. */
  #block = NOTHING;
  #filled = 0;
  #sizeBytes = 0;

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  add(chunk: Uint8Array): void {
    this.#sizeBytes += chunk.length;
    if (chunk.length >= LARGE_CHUNK_BYTES || chunk.length === this.#sizeBytes) {
      this.#closeBlock();
      this.#parts.push(chunk);
      return;
    }
    if (chunk.length > this.#block.length - this.#filled) {
      this.#closeBlock();
      const bytes = Math.min(Math.max(this.#sizeBytes, BLOCK_BYTES_MIN), BLOCK_BYTES_MAX);
      this.#block = Buffer.allocUnsafeSlow(Math.max(bytes, chunk.length));
    }
    this.#block.set(chunk, this.#filled);
    this.#filled += chunk.length;
  }

  /** Returns the body so far in pieces. */
  get parts(): readonly Uint8Array[] {
    this.#closeBlock();
    return this.#parts;
  }

  /** Returns the body in one piece, and empties this. A body of one chunk is not copied. */
  take(): Uint8Array {
    const { parts } = this;
    this.clear();
    return parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts);
  }

  clear(): void {
    this.#parts = [];
    this.#block = NOTHING;
    this.#filled = 0;
    this.#sizeBytes = 0;
  }

  #closeBlock(): void {
    if (this.#filled > 0) this.#parts.push(this.#block.subarray(0, this.#filled));
    this.#block = NOTHING;
    this.#filled = 0;
  }
}

const DECODED_CHUNK_BYTES = 64 * 1024;

type Unpack = () => Transform;

/** Decoder of Zstandard, with which codex and pi pack long conversations. Node 22 and later have it. */
const createZstdDecompress = Reflect.get(zlib, 'createZstdDecompress') as ((options: object) => Transform) | undefined;
/** Number in Node of the parameter that bounds the window, as a power of two. */
const ZSTD_D_WINDOW_LOG_MAX = 100;
/** Largest window of Zstandard: 8 MiB, which its format asks every decoder to support. */
const ZSTD_PARAMETERS = { [ZSTD_D_WINDOW_LOG_MAX]: 23 };

/** A compression of bodies. */
interface Packing {
  readonly encoding: string;
  readonly unpack: Unpack;
}

/** Compressions that clients may use for bodies, by the name in `content-encoding`. */
const DECODERS: ReadonlyMap<string, Unpack> = new Map([
  ['gzip', () => createGunzip({ chunkSize: DECODED_CHUNK_BYTES })],
  ['deflate', () => createInflate({ chunkSize: DECODED_CHUNK_BYTES })],
  ['br', () => createBrotliDecompress({ chunkSize: DECODED_CHUNK_BYTES })],
  ...zstdDecoder(),
]);

function zstdDecoder(): readonly (readonly [string, Unpack])[] {
  const create = createZstdDecompress;
  if (create === undefined) return [];
  return [['zstd', () => create({ chunkSize: DECODED_CHUNK_BYTES, params: ZSTD_PARAMETERS })]];
}

const MEBIBYTE = 1024 * 1024;

/**
 * Takes in one body, from any host: within the body limit, within the room of the process, and unpacked if it is
 * compressed. A host calls `expect` once, `add` with each chunk, and `finish`. Each of them throws if the body is
 * refused, and drops what came before.
 */
export class BodyIntake {
  readonly #limit: BodyLimit;
  readonly #budget: ByteBudget;
  readonly #packing: Packing | undefined;
  readonly #bytes = new BodyBytes();
  #takenBytes = 0;

  /**
   * @param bodyLimitBytes size of the largest body, unpacked.
   * @throws ServeError `unsupported_media_type` for an encoding that is not supported
   */
  constructor(bodyLimitBytes: number, budget: ByteBudget, contentEncoding: string | undefined) {
    this.#limit =
      bodyLimitBytes <= budget.limitBytes
        ? { bytes: bodyLimitBytes, setBy: 'DYN_HTTP_BODY_LIMIT_MB' }
        : { bytes: budget.limitBytes, setBy: 'STATOR_HTTP_BODY_BUDGET_MB' };
    this.#budget = budget;
    this.#packing = packingOf(contentEncoding);
  }

  /**
   * Checks the announced length. It takes no room yet, because an announcement costs a client nothing.
   * @throws ServeError `request_too_large`
   */
  expect(bytes: number): void {
    this.#requireWithin(bytes);
  }

  /** Takes a chunk. @throws ServeError `request_too_large`, `server_overloaded` */
  add(chunk: Uint8Array): void {
    try {
      this.#requireWithin(this.#bytes.sizeBytes + chunk.length);
      this.#take(chunk.length);
    } catch (thrown) {
      this.release();
      throw thrown;
    }
    this.#bytes.add(chunk);
  }

  /**
   * Resolves with the whole body, unpacked, whose room is taken until `release`. Rejects as `add` throws, and with
   * `invalid_value`.
   */
  async finish(): Promise<Uint8Array> {
    if (this.#packing === undefined) return this.#bytes.take();
    const packedBytes = this.#bytes.sizeBytes;
    const packed = this.#bytes.take();
    await decodeContent(this.#packing, packed, (chunk) => this.add(chunk));
    this.#give(packedBytes);
    return this.#bytes.take();
  }

  /** Releases the room, once the body is decoded or refused. Later calls do nothing. */
  release(): void {
    this.#bytes.clear();
    this.#give(this.#takenBytes);
  }

  #requireWithin(bytes: number): void {
    if (bytes > this.#limit.bytes) throw bodyTooLarge(this.#limit);
  }

  #take(bytes: number): void {
    this.#budget.take(bytes);
    this.#takenBytes += bytes;
  }

  #give(bytes: number): void {
    this.#takenBytes -= bytes;
    this.#budget.give(bytes);
  }
}

interface BodyLimit {
  readonly bytes: number;
  /** Setting that moves the limit. */
  readonly setBy: string;
}

function bodyTooLarge({ bytes, setBy }: BodyLimit): ServeError {
  const limitMb = bytes / MEBIBYTE;
  return overLimit('body_bytes', `Request body exceeds the limit of ${limitMb} MB set by ${setBy}`);
}

/** Returns the failure of a body that its client did not finish, or that the host could not read. */
export function bodyUnreadable(cause: unknown): ServeError {
  return new ServeError('invalid_json', 'Failed to read request body', { cause });
}

/**
 * Returns the compression of a body; undefined if it is not compressed.
 * @throws ServeError `unsupported_media_type` for any other encoding, and for several
 */
function packingOf(header: string | undefined): Packing | undefined {
  const name = header?.trim().toLowerCase() ?? '';
  if (name === '' || name === 'identity') return undefined;
  const encoding = name === 'x-gzip' ? 'gzip' : name;
  const unpack = DECODERS.get(encoding);
  if (unpack !== undefined) return { encoding, unpack };
  const allowed = [...DECODERS.keys()].join(', ');
  const message = `Content-Encoding ${name.slice(0, 100)} is not supported: send ${allowed} or identity`;
  throw new ServeError('unsupported_media_type', message, { param: 'content-encoding' });
}

/**
 * Unpacks `bytes` chunk by chunk, off the event loop. `take` gets each chunk and ends the work by throwing. So a body
 * that unpacks to more than is allowed stops at the limit.
 * Rejects with what `take` threw, or with a ServeError `invalid_value` for bytes that are not of that encoding.
 */
function decodeContent(
  { encoding, unpack }: Packing,
  bytes: Uint8Array,
  take: (chunk: Uint8Array) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const decoder = unpack();
    decoder.on('data', (chunk: Buffer) => {
      try {
        take(chunk);
      } catch (thrown) {
        reject(thrown);
        decoder.destroy();
      }
    });
    decoder.once('end', resolve);
    decoder.once('error', (cause) => {
      const message = `Failed to read request body: it is not valid ${encoding}: ${reasonOf(cause)}`;
      reject(new ServeError('invalid_value', message, { param: 'content-encoding', cause }));
    });
    decoder.end(bytes);
  });
}
