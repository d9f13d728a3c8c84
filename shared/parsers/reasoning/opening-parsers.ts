import type { ReasoningParser, ReasoningSink } from './types.ts';

/** `minimax_append_think`: nothing is split; the content gets the opener back that the prompt took from it. */
export class OpenerPrepender implements ReasoningParser {
  #opener: string;

  constructor(opener: string) {
    this.#opener = opener;
  }

  push(text: string, out: ReasoningSink): void {
    if (text === '') return;
    out.content(this.#opener + text);
    this.#opener = '';
  }

  end(): void {}
}

/** For requests without reasoning: everything is content but an opener as the very first characters. */
export class OpenerStripper implements ReasoningParser {
  #opener: string | undefined;
  #held = '';

  constructor(opener: string) {
    this.#opener = opener;
  }

  push(text: string, out: ReasoningSink): void {
    if (this.#opener === undefined) {
      if (text !== '') out.content(text);
      return;
    }
    const seen = this.#held + text;
    if (seen.length < this.#opener.length && this.#opener.startsWith(seen)) {
      this.#held = seen;
      return;
    }
    const rest = seen.startsWith(this.#opener) ? seen.slice(this.#opener.length) : seen;
    this.#opener = undefined;
    this.#held = '';
    if (rest !== '') out.content(rest);
  }

  end(out: ReasoningSink): void {
    if (this.#held !== '') out.content(this.#held);
    this.#held = '';
  }
}
