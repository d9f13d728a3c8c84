import type { Usage } from '../../../protocol/index.ts';
import type { UnknownRecord } from '../../../records/index.ts';
import { isAscii } from '../sinks/dialect-sink.ts';
import type { WireNames } from '../sinks/response-names.ts';
import { usageBody } from './usage.ts';

/** The fields of a chunk that a dialect decides. */
export interface ChunkFields {
  /** JSON text of the fields that every chunk of a stream has. */
  readonly chunkFields: string;
  /** Whether chunks say `usage: null` even if the client did not ask for usage. */
  readonly alwaysHasUsage: boolean;
}

/**
 * Writes the chunks of one prompt as text. It builds once what all chunks share, so a chunk that has only text is three
 * strings put together.
 */
export class SseChunks {
  readonly #names: WireNames;
  readonly #around: (choice: number) => readonly [head: string, tail: string];
  readonly #identity: string;
  readonly #plainUsage: string;
  /** Text that begins every chunk. The first chunk asks for the id. */
  #start: string | undefined;
  #nvext = '';
  #isTailAscii: boolean;
  /** Text around the text of each choice. */
  readonly #contents: { readonly head: string; readonly tail: string }[] = [];

  constructor(
    names: WireNames,
    { fields, includesUsage }: { readonly fields: ChunkFields; readonly includesUsage: boolean },
    around: (choice: number) => readonly [head: string, tail: string],
  ) {
    this.#names = names;
    this.#around = around;
    this.#identity = identityOf(names, fields);
    this.#plainUsage = includesUsage || fields.alwaysHasUsage ? ',"usage":null' : '';
    this.#isTailAscii = isAscii(this.#identity);
  }

  /** Sets the `nvext` text that every chunk with only text carries from now on. */
  setNvext(nvext: string): void {
    this.#nvext = nvext;
    this.#contents.length = 0;
    this.#isTailAscii = isAscii(this.#identity) && isAscii(nvext);
  }

  /** Returns a chunk that has only text. Runs for every token. */
  content(choice: number, text: string): string {
    const { head, tail } = this.#contents[choice] ?? this.#open(choice);
    return head + JSON.stringify(text) + tail;
  }

  /** Whether the chunk that `content` makes of `text` is all ASCII. */
  isAsciiContent(text: string): boolean {
    return this.#isTailAscii && isAscii(text);
  }

  /** Returns any chunk. `choice` and `usage` are JSON text, `nvext` is `,"nvext":{...}` or empty. */
  chunk(choice: string, nvext: string, usage: string | undefined): string {
    const told = usage === undefined ? this.#plainUsage : `,"usage":${usage}`;
    this.#start ??= startOf(this.#names);
    return `${this.#start}${choice}${this.#identity}${told}${nvext}}\n\n`;
  }

  /**
   * Returns a worker's own chunk in the published shape, with the names of this response.
   * @param running continuous usage
   */
  body({ choices, usage: _usage, ...own }: UnknownRecord, running: unknown): string {
    this.#start ??= startOf(this.#names);
    const list = JSON.stringify(choices).slice(1, -1);
    const { id: _id, created: _created, model: _model, object: _object, ...rest } = own;
    const more = JSON.stringify(rest).slice(1, -1);
    const told = running === undefined ? this.#plainUsage : `,"usage":${JSON.stringify(running)}`;
    return `${this.#start}${list}${this.#identity}${told}${more === '' ? '' : `,${more}`}}\n\n`;
  }

  #open(choice: number): { readonly head: string; readonly tail: string } {
    const [head, tail] = this.#around(choice);
    this.#start ??= startOf(this.#names);
    const content = {
      head: this.#start + head,
      tail: `${tail}${this.#identity}${this.#plainUsage}${this.#nvext}}\n\n`,
    };
    this.#contents[choice] = content;
    return content;
  }
}

function startOf({ id }: WireNames): string {
  return `data: {"id":${JSON.stringify(id)},"choices":[`;
}

function identityOf({ created, model }: WireNames, { chunkFields }: ChunkFields): string {
  return `],"created":${created},"model":${JSON.stringify(model)},${chunkFields}`;
}

/** Returns a chunk without choices, which ends a stream with its usage. */
export function usageChunk(names: WireNames, fields: ChunkFields, usage: Usage): string {
  return `${startOf(names)}${identityOf(names, fields)},"usage":${JSON.stringify(usageBody(usage))}}\n\n`;
}
