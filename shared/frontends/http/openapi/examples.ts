import { type ServedModel, servesType } from '../../../pipeline/index.ts';
import { MODEL_TYPES } from '../../../protocol/index.ts';
import type { ExampleModels, Operation } from '../route.ts';

/** Name of the model in examples while no model is served. */
const NO_MODEL = 'MODEL';
const RESPONSE_ID = `resp_${'0'.repeat(32)}`;
const COMPLETION_ID = 'chatcmpl-00000000-0000-4000-8000-000000000000';

/**
 * Returns for each kind of request the first model that takes it. If none does, it is any model, whose refusal then
 * says so.
 */
export function exampleModels(models: readonly ServedModel[]): ExampleModels {
  const ready = models.filter(({ readiness }) => readiness.isReady);
  const any = (ready[0] ?? models[0])?.name ?? NO_MODEL;
  const of = (type: keyof ExampleModels): string => ready.find((model) => servesType(model, type))?.name ?? any;
  const named = Object.values(MODEL_TYPES).map((type) => [type, of(type)]);
  return Object.fromEntries(named) as ExampleModels; // an entry for each type
}

/** Returns an example of `{id}`: a served model, or the form of a response's id. */
export function exampleId({ tag }: Pick<Operation, 'tag'>, models: ExampleModels): string {
  if (tag === 'Models') return models.Chat;
  return tag === 'Responses' ? RESPONSE_ID : COMPLETION_ID;
}
