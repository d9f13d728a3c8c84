import type { Usage } from '../../../protocol/index.ts';
import { isRecord, type UnknownRecord } from '../../../records/index.ts';
import type { Inference } from '../serve-inference.ts';

/** What every chunk and object of one response says of itself. */
export interface WireNames {
  /** `chatcmpl-<id>` or `cmpl-<id>`. */
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  /** Primary name of the model, also when an alias was asked for. */
  readonly model: string;
}

/** Names of a streamed response. Its id says where it is cancelled, and so is made when it is first told: the worker is known by then. */
class StreamNames implements WireNames {
  readonly created: number;
  readonly model: string;
  readonly #nameOf: () => string;
  #id: string | undefined;

  constructor(created: number, model: string, nameOf: () => string) {
    this.created = created;
    this.model = model;
    this.#nameOf = nameOf;
  }

  get id(): string {
    this.#id ??= this.#nameOf();
    return this.#id;
  }
}

/** The names of one response, streamed or whole. @param isShared several workers may have a part of it */
export function namesOf(
  inference: Inference,
  isStream: boolean,
  id: string,
  model: string,
  isShared = false,
): WireNames {
  const { createdSecs: created } = inference;
  if (!isStream) {
    inference.spans?.answersAs(id, false);
    return { id, created, model };
  }
  return new StreamNames(created, model, () => {
    const name = id + inference.nameOf(id, isShared);
    inference.spans?.answersAs(name, true);
    return name;
  });
}

/** A side event: a name and a comment with a JSON value, no data. */
export function annotationFrame(name: string, jsonValue: string): string {
  return `event: ${name}\n: ${jsonValue.replaceAll(/[\r\n]/g, ' ')}\n\n`;
}

/** The frame of a preprocessing annotation. Token ids are shown as a JSON string that holds the array's text (1.6.1). */
export function preprocessorFrame(name: string, jsonValue: string): string {
  return annotationFrame(name, name === 'token_ids' ? JSON.stringify(jsonValue) : jsonValue);
}

/** `usage` of chats and completions; details only where somebody counted them. */
export function usageBody(usage: Usage): Readonly<Record<string, unknown>> {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.promptTokens + usage.completionTokens,
    ...(usage.cachedTokens === undefined || usage.hidesCache === true
      ? {}
      : { prompt_tokens_details: { cached_tokens: usage.cachedTokens } }),
    ...(usage.reasoningTokens === undefined
      ? {}
      : { completion_tokens_details: { reasoning_tokens: usage.reasoningTokens } }),
  };
}

/** A worker's own chunk of one prompt, with the choices where they stand in the whole batch. */
export function withFirstChoice(body: unknown, firstChoice: number): unknown {
  if (firstChoice === 0 || !isRecord(body)) return body;
  const { choices } = body;
  if (!Array.isArray(choices)) return body;
  const moved = choices.map((choice) => ({ ...choice, index: firstChoice + (Number(choice?.index) || 0) }));
  return { ...body, choices: moved };
}

/** A worker's own chunk whose reasoning stands under the name that this deployment has for it. */
export function withReasoningField(body: unknown, field: string): unknown {
  if (field === REASONING_FIELD || !isRecord(body) || !Array.isArray(body.choices)) return body;
  const choices = body.choices.map((choice: unknown) => {
    if (!isRecord(choice) || !isRecord(choice.delta) || !(REASONING_FIELD in choice.delta)) return choice;
    const { [REASONING_FIELD]: reasoning, ...delta } = choice.delta;
    return { ...choice, delta: { ...delta, [field]: reasoning } };
  });
  return { ...body, choices };
}

/** A worker's own chunk without its reasoning; choices that say nothing else are left out. */
export function withoutReasoningDelta(body: unknown): unknown {
  if (!isRecord(body) || !Array.isArray(body.choices)) return body;
  const choices = body.choices.flatMap((choice: unknown): readonly unknown[] => {
    if (!isRecord(choice) || !isRecord(choice.delta) || !(REASONING_FIELD in choice.delta)) return [choice];
    const { [REASONING_FIELD]: _reasoning, ...delta } = choice.delta;
    return withRest(choice, delta);
  });
  return { ...body, choices };
}

/** A choice of a chunk with what is left of its delta; none if it says nothing any more. */
export function withRest(choice: UnknownRecord, delta: UnknownRecord): readonly UnknownRecord[] {
  const saysNothing = Object.keys(delta).length === 0 && choice.finish_reason == null && choice.logprobs == null;
  return saysNothing ? [] : [{ ...choice, delta }];
}

/** A whole choice without its reasoning. */
export function withoutReasoning(choice: UnknownRecord, field: string): UnknownRecord {
  if (!isRecord(choice.message)) return choice;
  const { [field]: _reasoning, ...message } = choice.message;
  return { ...choice, message };
}

/** What reasoning is called in chunks of workers. */
const REASONING_FIELD = 'reasoning_content';
