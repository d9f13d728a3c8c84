/** Parts of a request that do not reach the model, with the words in which the client is informed. */
const WORDS = {
  tool: 'hosted tools are not supported and were dropped',
  history: 'parts of the history were left out',
  parameter: 'parameters were ignored',
} as const;

/** Kind of a part that was left out; also a label of a metric. */
export type LeftOutKind = keyof typeof WORDS;

/** Limit of the names that a header lists for one kind; a request may consist of nothing else. */
const NAMES_MAX = 8;
const NAME_CHARS_MAX = 64;

/**
 * Parts of one request that were left out on the way to the model. They do not fail the request, and are not dropped
 * silently: the client gets their names, operators their number.
 */
export class LeftOut {
  readonly #names = new Map<LeftOutKind, Set<string>>();

  /** Records a part. @param name its name in the request: the type of a tool or of an item, the key of a parameter */
  note(kind: LeftOutKind, name: string): void {
    let names = this.#names.get(kind);
    if (names === undefined) {
      names = new Set();
      this.#names.set(kind, names);
    }
    if (names.size <= NAMES_MAX) names.add(shownName(name));
  }

  /** Kinds of the parts that were left out, each once. */
  get kinds(): readonly LeftOutKind[] {
    return [...this.#names.keys()];
  }

  /** Returns the names of one kind, up to the limit. */
  names(kind: LeftOutKind): readonly string[] {
    return [...(this.#names.get(kind) ?? [])].slice(0, NAMES_MAX);
  }

  /** Value of a `warning` header; undefined when nothing was left out. */
  get warning(): string | undefined {
    if (this.#names.size === 0) return undefined;
    return Array.from(this.#names, ([kind, { size }]) => {
      const more = size > NAMES_MAX ? ', ...' : '';
      return `299 - "${WORDS[kind]}: ${this.names(kind).join(', ')}${more}"`;
    }).join(', ');
  }
}

/** Returns a client's word in a form that is safe in a header. */
function shownName(name: string): string {
  return name.slice(0, NAME_CHARS_MAX).replaceAll(/[^\w./:-]/g, '?');
}
