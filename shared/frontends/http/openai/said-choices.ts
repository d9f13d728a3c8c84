import type { FinishReason, GenerationEvent, TokenLogprob } from '../../../protocol/generation/index.ts';

type SaidEvent = Extract<GenerationEvent, { readonly kind: 'delta' | 'finish' }>;

/** What every choice of a unary answer has, as it grows. */
export interface SaidChoice {
  text: string;
  readonly logprobs: TokenLogprob[];
  finish: FinishReason | null;
}

/** The choices of one unary answer, in the order of their indices. */
export class SaidChoices<Choice extends SaidChoice> {
  readonly all: Choice[] = [];
  readonly #open: () => Choice;
  readonly #tokenIds: number[] = [];
  #stopReason: string | number | undefined;

  /** @param open makes a choice of which nothing was said yet */
  constructor(open: () => Choice) {
    this.#open = open;
  }

  /** The choice at `index`; those before it exist then, too. */
  at(index: number): Choice {
    while (this.all.length <= index) this.all.push(this.#open());
    return this.all[index]!; // just filled up to it
  }

  say(event: SaidEvent): void {
    const choice = this.at(event.choice);
    choice.text += event.text;
    for (const logprob of event.logprobs ?? []) choice.logprobs.push(logprob); // any number of them
    for (const id of event.tokenIds) this.#tokenIds.push(id);
    if (event.kind === 'delta') return;
    choice.finish = event.reason;
    this.#stopReason = event.stopReason;
  }

  /** What `nvext` tells of the end of the answer. */
  get ending() {
    return { tokenIds: this.#tokenIds, finish: { stopReason: this.#stopReason } };
  }
}
