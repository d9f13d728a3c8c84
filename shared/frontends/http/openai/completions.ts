import {
  completionsBody,
  type DecodedCompletions,
  decodeCompletions,
  type FinishReason,
  parseCompletionsBody,
  type TokenLogprob,
} from '../../../protocol/index.ts';
import { decodeContext, requireServed } from '../../inference/dialect.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { BodyRoute } from '../route.ts';
import { serveInference } from '../serve-inference.ts';
import { completionLogprobs, wholeCompletionLogprobs } from './choices.ts';
import { generateAnswer } from './text-answer.ts';
import { PromptStream, type TextDialect } from './text-stream.ts';

/** `POST /v1/completions`. */
const serveCompletions = serveInference({
  endpoint: 'completions',
  isOffWithoutModel: true,
  parse: parseCompletionsBody,
  start: async (inference, body, model) => {
    const decoded = decodeCompletions(body, decodeContext(inference));
    inference.identify(decoded.requests[0]!); // a batch has at least one prompt
    requireServed(inference, body.model, 'completions');
    const echoes = await echoedTexts(inference.deps, body.model, decoded);
    generateAnswer(inference, { ...decoded, dialect: COMPLETIONS, echoes }, model);
  },
});

export const completions: BodyRoute = {
  serve: serveCompletions,
  body: {
    name: 'CompletionRequest',
    ...completionsBody,
    example: ({ Completions: model }) => ({ model, prompt: 'Once upon a time', max_tokens: 32 }),
  },
};

/** Returns the text that `echo` repeats of each prompt. Token ids become the text that they stand for. */
async function echoedTexts(
  { pipeline }: HttpAppDeps,
  model: string,
  { echoes }: DecodedCompletions,
): Promise<readonly string[] | undefined> {
  if (echoes === undefined) return undefined;
  return Promise.all(echoes.map((echo) => (typeof echo === 'string' ? echo : pipeline.textOf(model, echo))));
}

/** The dialect of completions. This route parses neither reasoning nor tool calls. */
const COMPLETIONS: TextDialect = {
  idPrefix: 'cmpl-',
  object: 'text_completion',
  chunkFields: '"object":"text_completion"',
  alwaysHasUsage: true,
  stream: (...parts) => new CompletionStream(...parts),
  choiceBody: ({ text, finish, logprobs }, index) => ({
    text,
    index,
    logprobs: logprobs.length === 0 ? null : wholeCompletionLogprobs(logprobs),
    ...(finish === null ? {} : { finish_reason: finish }),
  }),
  wholeChoice: (choice) => choice,
};

/** Encodes one prompt of a completions stream. */
class CompletionStream extends PromptStream {
  readonly #echo = this.batch.answer.echoes?.[this.index];
  readonly #hasEchoed: boolean[] = [];

  override annotation(name: string, value: string): void {
    if (name !== 'formatted_prompt') super.annotation(name, value); // a client may see only what a template rendered
  }

  /** Puts the prompt in front of each choice's first text. */
  protected begin(choice: number, text: string): string {
    if (this.#echo === undefined || this.#hasEchoed[choice] === true) return text;
    this.#hasEchoed[choice] = true;
    return this.#echo + text;
  }

  protected opening(choice: number): string {
    return this.choiceText(choice, '', [], null);
  }

  protected around(choice: number): readonly [head: string, tail: string] {
    return ['{"text":', `,"index":${choice},"logprobs":null}`];
  }

  protected choiceText(
    choice: number,
    text: string,
    logprobs: readonly TokenLogprob[],
    reason: FinishReason | null,
  ): string {
    const told = `,"logprobs":${logprobs.length === 0 ? 'null' : JSON.stringify(completionLogprobs(logprobs))}`;
    const ending = reason === null ? '' : `,"finish_reason":"${reason}"`;
    return `{"text":${JSON.stringify(text)},"index":${choice}${told}${ending}}`;
  }
}
