import { overLimit, ServeError } from '../../../errors/index.ts';
import { BodyBytes } from './body-bytes.ts';
import type { ByteBudget } from './byte-budget.ts';
import { type ContentEncoding, contentEncodingOf, decodeContent } from './content-encoding.ts';

const MEBIBYTE = 1024 * 1024;

/**
 * Takes in one body, whatever host reads it: within the body limit, within the room of the process, and unpacked if it is
 * compressed. A host calls `expect` once, `add` with each chunk, and `finish`; each of them throws when the body is not
 * wanted, and what came before is let go of then.
 */
export class BodyIntake {
  readonly #limit: BodyLimit;
  readonly #budget: ByteBudget;
  readonly #encoding: ContentEncoding | undefined;
  readonly #bytes = new BodyBytes();
  #takenBytes = 0;

  /**
   * @param bodyLimitBytes the largest body, unpacked
   * @throws ServeError `unsupported_media_type` for an encoding that nobody here can unpack.
   */
  constructor(bodyLimitBytes: number, budget: ByteBudget, contentEncoding: string | undefined) {
    this.#limit =
      bodyLimitBytes <= budget.limitBytes
        ? { bytes: bodyLimitBytes, setBy: 'DYN_HTTP_BODY_LIMIT_MB' }
        : { bytes: budget.limitBytes, setBy: 'STATOR_HTTP_BODY_BUDGET_MB' };
    this.#budget = budget;
    this.#encoding = contentEncodingOf(contentEncoding);
  }

  /**
   * So many bytes are announced. They take no room yet: an announcement costs a client nothing.
   * @throws ServeError `request_too_large`
   */
  expect(bytes: number): void {
    this.#requireWithin(bytes);
    this.#bytes.announce(bytes);
  }

  /** @throws ServeError `request_too_large`, `server_overloaded`. */
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

  /** The whole body, unpacked. Its room is taken until `release`. Rejects as `add` throws, and with `invalid_value`. */
  async finish(): Promise<Uint8Array> {
    if (this.#encoding === undefined) return this.#bytes.take();
    const packedBytes = this.#bytes.sizeBytes;
    const packed = this.#bytes.take();
    await decodeContent(this.#encoding, packed, (chunk) => this.add(chunk));
    this.#give(packedBytes);
    return this.#bytes.take();
  }

  /** The body was decoded, or is not wanted any more. Later calls change nothing. */
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
  /** The setting to change. */
  readonly setBy: string;
}

function bodyTooLarge({ bytes, setBy }: BodyLimit): ServeError {
  const limitMb = bytes / MEBIBYTE;
  return overLimit('body_bytes', `Request body exceeds the limit of ${limitMb} MB set by ${setBy}`);
}

/** The client stopped in the middle of its body, or the host could not read it. */
export function bodyUnreadable(cause: unknown): ServeError {
  return new ServeError('invalid_json', 'Failed to read request body', { cause });
}
