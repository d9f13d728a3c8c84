import type { Markers } from '../markers.ts';
import type { ReasoningParser, ReasoningSink } from './parser.ts';

/** Constraint of an answer. `text`: its beginning cannot be distinguished from reasoning. */
export type AnswerConstraint =
  | { readonly kind: 'json' | 'text' }
  | { readonly kind: 'choice'; readonly choices: readonly string[] };

type Verdict = 'open' | 'answer' | 'reasoning';

/** Length after which an undecided beginning is reasoning, unless it is a bracket followed only by white space. */
const HELD_UNITS_MAX = 2048;

/**
 * Reads the beginning of a constrained answer when a prompt leaves the model inside reasoning. Engines that constrain
 * from the first token on give the answer at once; others reason first. An answer that begins as its constraint
 * requires is content to its end; anything else is read as usual. An undecided beginning is held until a marker comes;
 * a text without a marker is the answer.
 */
export class GuidedStart implements ReasoningParser {
  readonly #usual: ReasoningParser;
  readonly #markers: Markers;
  readonly #constraint: AnswerConstraint;
  #verdict: Verdict = 'open';
  #held = '';

  /** @param markers those that show that the text is reasoning */
  constructor(usual: ReasoningParser, markers: Markers, constraint: AnswerConstraint) {
    this.#usual = usual;
    this.#markers = markers;
    this.#constraint = constraint;
  }

  push(text: string, out: ReasoningSink): void {
    if (text === '') return;
    if (this.#verdict === 'open') {
      this.#held += text;
      this.#verdict = this.#judge(this.#held);
      if (this.#verdict !== 'open') this.#release(out);
    } else this.#pass(text, out);
  }

  end(out: ReasoningSink): void {
    if (this.#verdict === 'open') {
      this.#verdict = 'answer';
      this.#release(out);
    }
    this.#usual.end(out);
  }

  #release(out: ReasoningSink): void {
    const text = this.#held;
    this.#held = '';
    if (text !== '') this.#pass(text, out);
  }

  #pass(text: string, out: ReasoningSink): void {
    if (this.#verdict === 'answer') out.content(text);
    else this.#usual.push(text, out);
  }

  #judge(held: string): Verdict {
    const text = held.trimStart();
    if (held.length - text.length > HELD_UNITS_MAX) return 'reasoning';
    if (text === '') return 'open';
    if (this.#constraint.kind === 'json' && /^[{[]/.test(text)) return judgeJson(text);
    if (text.length > HELD_UNITS_MAX || this.#markers.find(held, 0, true) < held.length) return 'reasoning';
    switch (this.#constraint.kind) {
      case 'json':
        return judgeJson(text);
      case 'choice':
        return this.#constraint.choices.some((choice) => agrees(choice.trimStart(), text)) ? 'open' : 'reasoning';
      case 'text':
        return 'open';
    }
  }
}

function agrees(choice: string, text: string): boolean {
  return choice.startsWith(text) || (choice !== '' && text.trimEnd() === choice.trimEnd());
}

/** Judges by the first two characters that are not white space. A string or a number may also begin a sentence. */
function judgeJson(text: string): Verdict {
  const first = text[0] as string; // not empty
  if (first !== '{' && first !== '[') return /^["\d-]/.test(text) ? 'open' : 'reasoning';
  const rest = text.slice(1).trimStart();
  if (rest === '') return text.length > HELD_UNITS_MAX ? 'answer' : 'open';
  return (first === '{' ? /^["}]/ : /^[[{"\]\-\dtfn]/).test(rest) ? 'answer' : 'reasoning';
}
