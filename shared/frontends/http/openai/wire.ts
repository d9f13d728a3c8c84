import type { Usage } from '../../../protocol/index.ts';
import { isRecord } from '../../../records/index.ts';
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
  return isStream ? new StreamNames(created, model, () => id + inference.nameOf(id, isShared)) : { id, created, model };
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

/** A worker's own chunk under the response's names: clients must not see the worker's ids or file names. */
export function withWireNames(body: unknown, names: WireNames): unknown {
  if (!isRecord(body)) return body;
  return { ...body, id: names.id, created: names.created, model: names.model };
}

/** A worker's own chunk of one prompt, with the choices where they stand in the whole batch. */
export function withFirstChoice(body: unknown, firstChoice: number): unknown {
  if (firstChoice === 0 || !isRecord(body)) return body;
  const { choices } = body;
  if (!Array.isArray(choices)) return body;
  const moved = choices.map((choice) => ({ ...choice, index: firstChoice + (Number(choice?.index) || 0) }));
  return { ...body, choices: moved };
}

/**
 * A worker's own chunk as a client sees it that did not ask for usage: without it, and undefined where the chunk says
 * nothing else. Workers are always asked, since metrics and other dialects count by it.
 */
export function withoutUsage(body: unknown): unknown {
  if (!isRecord(body) || !('usage' in body)) return body;
  const { usage, ...rest } = body;
  const isOnlyUsage = isRecord(usage) && Array.isArray(body.choices) && body.choices.length === 0;
  return isOnlyUsage ? undefined : rest;
}

/** Whether a worker's own chunk tells what the answer has used. */
export function hasUsage(body: unknown): boolean {
  return isRecord(body) && isRecord(body.usage);
}
