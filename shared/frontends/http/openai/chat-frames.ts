import { isAscii } from '../answers/ascii.ts';

/**
 * The chunks of one chat stream as text. What does not change from chunk to chunk is built once a request; a content
 * chunk is then three strings put together.
 */
export class ChatFrames {
  readonly #start: string;
  readonly #identity: string;
  #heads: string[] = [];
  #contentTail = '';
  #isTailAscii = true;
  readonly #plainUsage: string;

  /** @param showsNullUsage chunks before the usage chunk say `usage: null` */
  constructor(id: string, created: number, model: string, showsNullUsage: boolean) {
    this.#start = `data: {"id":${JSON.stringify(id)},"choices":[`;
    this.#identity = `,"created":${created},"model":${JSON.stringify(model)},"object":"chat.completion.chunk"`;
    this.#plainUsage = showsNullUsage ? ',"usage":null' : '';
    this.setNvext('');
  }

  /** Sets the `nvext` text that every plain content chunk carries from now on. */
  setNvext(nvext: string): void {
    this.#isTailAscii = isAscii(this.#identity) && isAscii(nvext);
    this.#contentTail = `},"finish_reason":null,"logprobs":null}]${this.#identity}${this.#plainUsage}${nvext}}\n\n`;
  }

  /** The hot path: a chunk with nothing but text. */
  content(choice: number, text: string): string {
    return this.#contentHead(choice) + JSON.stringify(text) + this.#contentTail;
  }

  /** Whether the chunk that `content` makes of `text` is all ASCII. */
  isAsciiContent(text: string): boolean {
    return this.#isTailAscii && isAscii(text);
  }

  /** Any chunk of one choice. `delta`, `logprobs` and `usage` are JSON text. */
  chunk(choice: number, delta: string, parts: ChunkParts = NO_PARTS): string {
    const finish = parts.finish === undefined ? 'null' : `"${parts.finish}"`;
    const usage = parts.usage === undefined ? this.#plainUsage : `,"usage":${parts.usage}`;
    return `${this.#start}{"index":${choice},"delta":${delta},"finish_reason":${finish},"logprobs":${
      parts.logprobs ?? 'null'
    }}]${this.#identity}${usage}${parts.nvext ?? ''}}\n\n`;
  }

  /** The chunk without choices that ends a stream with `include_usage`. */
  usage(usage: string): string {
    return `${this.#start}]${this.#identity},"usage":${usage}}\n\n`;
  }

  #contentHead(choice: number): string {
    const head = this.#heads[choice];
    if (head !== undefined) return head;
    for (let at = this.#heads.length; at <= choice; at++) {
      this.#heads.push(`${this.#start}{"index":${at},"delta":{"content":`);
    }
    return this.#heads[choice]!; // just filled up to it
  }
}

/** What a chunk carries beside its delta; all JSON text. */
export interface ChunkParts {
  readonly finish?: string;
  readonly logprobs?: string;
  /** Replaces the stream's `usage: null`. */
  readonly usage?: string;
  /** `,"nvext":{...}` or nothing. */
  readonly nvext?: string;
}

const NO_PARTS: ChunkParts = {};
