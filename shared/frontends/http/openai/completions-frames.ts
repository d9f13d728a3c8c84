import { isAscii } from '../answers/ascii.ts';

/** The chunks of one prompt of a completions stream as text; constants are built once. */
export class CompletionsFrames {
  readonly #start: string;
  readonly #identity: string;
  readonly #firstChoice: number;
  readonly #contentTails: string[] = [];
  #nvext = '';
  #areTailsAscii: boolean;

  /** @param firstChoice index of the prompt's first choice in the whole answer */
  constructor(id: string, created: number, model: string, firstChoice: number) {
    this.#start = `data: {"id":${JSON.stringify(id)},"choices":[`;
    this.#identity =
      `],"created":${created},"model":${JSON.stringify(model)},` +
      '"system_fingerprint":null,"object":"text_completion","usage":';
    this.#firstChoice = firstChoice;
    this.#areTailsAscii = isAscii(this.#identity);
  }

  /** Sets the `nvext` text that every plain content chunk carries from now on. */
  setNvext(nvext: string): void {
    this.#nvext = nvext;
    this.#contentTails.length = 0;
    this.#areTailsAscii = isAscii(this.#identity) && isAscii(nvext);
  }

  /** The hot path: a chunk with nothing but text. */
  content(choice: number, text: string): string {
    return `${this.#start}{"text":${JSON.stringify(text)}${this.#contentTails[choice] ?? this.#makeTail(choice)}`;
  }

  /** Whether the chunk that `content` makes of `text` is all ASCII. */
  isAsciiContent(text: string): boolean {
    return this.#areTailsAscii && isAscii(text);
  }

  /** Any chunk of one choice; `logprobs`, `usage` and `nvext` are JSON text. */
  chunk(choice: number, text: string, parts: CompletionsChunkParts): string {
    const logprobs = parts.logprobs === undefined ? '' : `,"logprobs":${parts.logprobs}`;
    const finish = parts.finish === undefined ? '' : `,"finish_reason":"${parts.finish}"`;
    const index = this.#firstChoice + choice;
    return `${this.#start}{"text":${JSON.stringify(text)},"index":${index}${logprobs}${finish}}${this.#identity}${
      parts.usage ?? 'null'
    }${parts.nvext ?? ''}}\n\n`;
  }

  /** The chunk without choices that ends a stream with `include_usage`. */
  usage(usage: string): string {
    return `${this.#start}${this.#identity}${usage}}\n\n`;
  }

  #makeTail(choice: number): string {
    const tail = `,"index":${this.#firstChoice + choice}}${this.#identity}null${this.#nvext}}\n\n`;
    this.#contentTails[choice] = tail;
    return tail;
  }
}

export interface CompletionsChunkParts {
  readonly finish?: string;
  readonly logprobs?: string;
  readonly usage?: string;
  /** `,"nvext":{...}` or nothing. */
  readonly nvext?: string;
}
