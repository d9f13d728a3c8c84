import type { GenerationRequest, GenerationSink } from '../protocol/index.ts';
import { BoundedMap } from '../records/index.ts';
import { ShowingSink, ShownText } from './shown-text.ts';
import type { ConsoleRequestDetail } from './wire/requests.ts';

/** Requests whose prompts and answers are kept, if they are kept at all: about 32 MB with the bounds of each. */
export const TEXTS_MAX = 1000;

/** Reason why a console that shows no prompts has no text of a request. */
export const NOT_SHOWN = 'Prompts and answers are shown only with --console-show-prompts.';
const NO_TEXT = `The frontend has no text of it: the request was refused, or ${TEXTS_MAX} others came since.`;

/** The texts of the latest requests, by the numbers of the requests. */
export class ShownTexts {
  readonly #texts = new BoundedMap<number, ShownText>(TEXTS_MAX);

  /** Notes the first prompt of a request, and how many it has. Returns the sink for the answer to this one. */
  take(number: number, asked: GenerationRequest, sink: GenerationSink): GenerationSink {
    const known = this.#texts.get(number);
    if (known !== undefined) {
      known.prompts++;
      return sink;
    }
    const text = new ShownText(asked);
    this.#texts.set(number, text);
    return new ShowingSink(sink, text);
  }

  /** Returns the texts of a request, or why there are none. */
  of(number: number): Pick<ConsoleRequestDetail, 'text' | 'no_text'> {
    const text = this.#texts.get(number);
    return text === undefined ? { text: null, no_text: NO_TEXT } : { text: text.shown(), no_text: null };
  }
}
