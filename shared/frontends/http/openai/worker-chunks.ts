import { isRecord, type UnknownRecord } from '../../../records/index.ts';

/** Returns a worker's own chunk of one prompt, with its choices numbered as in the whole batch. */
export function withFirstChoice(body: unknown, firstChoice: number): unknown {
  if (firstChoice === 0 || !isRecord(body)) return body;
  const { choices } = body;
  if (!Array.isArray(choices)) return body;
  const moved = choices.map((choice) => ({ ...choice, index: firstChoice + (Number(choice?.index) || 0) }));
  return { ...body, choices: moved };
}

/** Returns a worker's own chunk with its reasoning under the name that this deployment configures. */
export function withReasoningField(body: unknown, field: string): unknown {
  if (field === REASONING_FIELD || !isRecord(body) || !Array.isArray(body.choices)) return body;
  const choices = body.choices.map((choice: unknown) => {
    if (!isRecord(choice) || !isRecord(choice.delta) || !(REASONING_FIELD in choice.delta)) return choice;
    const { [REASONING_FIELD]: reasoning, ...delta } = choice.delta;
    return { ...choice, delta: { ...delta, [field]: reasoning } };
  });
  return { ...body, choices };
}

/** Returns a worker's own chunk without its reasoning. Choices that have nothing else are left out. */
export function withoutReasoningDelta(body: unknown): unknown {
  if (!isRecord(body) || !Array.isArray(body.choices)) return body;
  const choices = body.choices.flatMap((choice: unknown): readonly unknown[] => {
    if (!isRecord(choice) || !isRecord(choice.delta) || !(REASONING_FIELD in choice.delta)) return [choice];
    const { [REASONING_FIELD]: _reasoning, ...delta } = choice.delta;
    return withRest(choice, delta);
  });
  return { ...body, choices };
}

/** Returns a choice of a chunk with the rest of its delta; an empty list if nothing is left. */
export function withRest(choice: UnknownRecord, delta: UnknownRecord): readonly UnknownRecord[] {
  const saysNothing = Object.keys(delta).length === 0 && choice.finish_reason == null && choice.logprobs == null;
  return saysNothing ? [] : [{ ...choice, delta }];
}

/** Returns a whole choice without its reasoning. */
export function withoutReasoning(choice: UnknownRecord, field: string): UnknownRecord {
  if (!isRecord(choice.message)) return choice;
  const { [field]: _reasoning, ...message } = choice.message;
  return { ...choice, message };
}

/** Name of the reasoning in chunks of workers. */
const REASONING_FIELD = 'reasoning_content';
