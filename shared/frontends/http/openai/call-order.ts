import type { GenerationEvent } from '../../../protocol/generation/index.ts';

type CallEvent = Extract<GenerationEvent, { readonly kind: 'tool-call' | 'tool-arguments' }>;

interface Call {
  readonly choice: number;
  readonly index: number;
  readonly id: string;
  readonly name: string;
  /** Arguments so far. */
  text: string;
}

/**
 * Puts the pieces of tool calls in order, one call after the other, for dialects that close a call before the next one opens.
 * Workers may name several calls at once and mix their arguments. A call is told as it comes while it is the first that is not
 * whole; those behind it wait until its arguments are a JSON object, or until nothing more comes.
 */
export class CallOrder {
  readonly #tell: (event: CallEvent) => void;
  readonly #known = new Set<string>();
  #current: Call | undefined;
  /** In the order in which they began. */
  readonly #waiting: Call[] = [];

  constructor(tell: (event: CallEvent) => void) {
    this.#tell = tell;
  }

  /** The call has been named before. */
  knows(choice: number, index: number): boolean {
    return this.#known.has(keyOf(choice, index));
  }

  begin(choice: number, index: number, id: string, name: string): void {
    this.#known.add(keyOf(choice, index));
    const call: Call = { choice, index, id, name, text: '' };
    if (this.#waiting.length === 0 && (this.#current === undefined || isWhole(this.#current.text))) this.#open(call);
    else this.#waiting.push(call);
  }

  grow(choice: number, index: number, text: string): void {
    const waiting = this.#waiting.find((call) => call.choice === choice && call.index === index);
    if (waiting !== undefined) {
      waiting.text += text;
      return;
    }
    this.#tell({ kind: 'tool-arguments', choice, index, text });
    const current = this.#current;
    if (current === undefined || current.choice !== choice || current.index !== index) return;
    current.text += text;
    while (this.#waiting.length > 0 && isWhole(this.#current?.text ?? '')) this.#open(this.#waiting.shift()!);
  }

  /** Nothing more comes for any call: tells those that wait. */
  flush(): void {
    for (const call of this.#waiting.splice(0)) this.#open(call);
    this.#current = undefined;
  }

  #open(call: Call): void {
    const { choice, index, id, name, text } = call;
    this.#current = call;
    this.#tell({ kind: 'tool-call', choice, index, id, name });
    if (text !== '') this.#tell({ kind: 'tool-arguments', choice, index, text });
  }
}

function keyOf(choice: number, index: number): string {
  return `${choice}/${index}`;
}

/** Arguments are a JSON object; looked at from its end first, which is cheap. */
function isWhole(text: string): boolean {
  if (!text.trimEnd().endsWith('}')) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false; // the answer to the question, not a failure
  }
}
