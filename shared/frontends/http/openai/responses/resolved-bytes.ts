import { overLimit } from '../../../../errors/index.ts';
import type { InputItem } from '../../../../protocol/openai/index.ts';

const MEBIBYTE = 1024 * 1024;

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

  /**
   * One item more.
   * @param param field that names it
   * @throws ServeError `request_too_large`
   */
  add(item: InputItem, param: string): void {
    this.#bytes += this.#sizeOf(item);
    if (this.#bytes > this.#limitBytes) throw this.#tooLarge(param);
  }

  /** An item that will be added once at least. @throws as `add` */
  require(item: InputItem, param: string): void {
    if (this.#bytes + this.#sizeOf(item) > this.#limitBytes) throw this.#tooLarge(param);
  }

  #sizeOf(item: InputItem): number {
    let size = this.#sizes.get(item);
    if (size === undefined) {
      size = Buffer.byteLength(JSON.stringify(item));
      this.#sizes.set(item, size);
    }
    return size;
  }

  #tooLarge(param: string): Error {
    const limitMb = this.#limitBytes / MEBIBYTE;
    const message = `What the request refers to exceeds the limit of ${limitMb} MB set by DYN_HTTP_BODY_LIMIT_MB`;
    return overLimit('resolved_bytes', message, { param });
  }
}
