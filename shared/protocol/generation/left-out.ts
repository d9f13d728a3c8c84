/** What a request may hold that its model is not told of, and in which words its client hears of it. */
const WORDS = {
  tool: 'hosted tools are not supported and were dropped',
  history: 'parts of the history were left out',
  parameter: 'parameters were ignored',
} as const;

/** A kind of what is left out; also a label of a metric. */
export type LeftOutKind = keyof typeof WORDS;

/** Names that a header tells of one kind; a request may be made of nothing else. */
const NAMES_MAX = 8;
const NAME_CHARS_MAX = 64;

/**
 * What was left out of one request on its way to the model: nothing of it fails the request, and nothing is lost in silence.
 * The client is told the names, operators the number.
 */
export class LeftOut {
  readonly #names = new Map<LeftOutKind, Set<string>>();

  /** @param name what the client calls it: the type of a tool or of an item, the key of a parameter */
  note(kind: LeftOutKind, name: string): void {
    let names = this.#names.get(kind);
    if (names === undefined) {
      names = new Set();
      this.#names.set(kind, names);
    }
    if (names.size <= NAMES_MAX) names.add(shownName(name));
  }

  /** Kinds of which there is something, each once. */
  get kinds(): readonly LeftOutKind[] {
    return [...this.#names.keys()];
  }

  /** The names of one kind, as far as they are told. */
  names(kind: LeftOutKind): readonly string[] {
    return [...(this.#names.get(kind) ?? [])].slice(0, NAMES_MAX);
  }

  /** The value of a `warning` header; undefined when nothing was left out. */
  get warning(): string | undefined {
    if (this.#names.size === 0) return undefined;
    return Array.from(this.#names, ([kind, { size }]) => {
      const more = size > NAMES_MAX ? ', ...' : '';
      return `299 - "${WORDS[kind]}: ${this.names(kind).join(', ')}${more}"`;
    }).join(', ');
  }
}

/** A client's word as it may stand in a header. */
function shownName(name: string): string {
  return name.slice(0, NAME_CHARS_MAX).replaceAll(/[^\w./:-]/g, '?');
}
