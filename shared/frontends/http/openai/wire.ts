import type { Usage } from '../../../protocol/index.ts';
import { isRecord, type UnknownRecord } from '../../../records/index.ts';

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
