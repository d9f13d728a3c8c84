import { endOfTurn } from '../../../../concurrency/index.ts';
import { overLimit } from '../../../../errors/index.ts';
import { type InputItem, jsonPieces } from '../../../../protocol/openai/index.ts';

const MEBIBYTE = 1024 * 1024;
const TURN_CHARS = 128 * 1024;

/**
 * What a request brings along without sending it: the items that stand behind ids, each as often as it is named. A few
 * kilobytes of references to one long item would else become a prompt of any size.
 */
export class ResolvedBytes {
  readonly #limitBytes: number;
  readonly #sizes = new Map<InputItem, number>();
  #bytes = 0;

  /** @param limitBytes the largest body: what may not be sent may not be named either */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** Finds out how large items are, in several turns of the event loop where they are large. */
  async measure(items: Iterable<InputItem>): Promise<void> {
    let chars = 0;
    for (const item of items) {
      let size = 0;
      for (const text of jsonPieces(item)) {
        size += Buffer.byteLength(text);
        chars += text.length;
        if (chars < TURN_CHARS) continue;
        chars = 0;
        await endOfTurn();
      }
      this.#sizes.set(item, size);
    }
  }

  /**
   * One item more, which was measured.
   * @param param field that names it
   * @throws ServeError `request_too_large`
   */
  add(item: InputItem, param: string): void {
    this.#bytes += this.#sizes.get(item) ?? 0;
    if (this.#bytes > this.#limitBytes) throw this.#tooLarge(param);
  }

  /** An item that will be added once at least. @throws as `add` */
  require(item: InputItem, param: string): void {
    if (this.#bytes + (this.#sizes.get(item) ?? 0) > this.#limitBytes) throw this.#tooLarge(param);
  }

  #tooLarge(param: string): Error {
    const limitMb = this.#limitBytes / MEBIBYTE;
    const message = `What the request refers to exceeds the limit of ${limitMb} MB set by DYN_HTTP_BODY_LIMIT_MB`;
    return overLimit('resolved_bytes', message, { param });
  }
}
