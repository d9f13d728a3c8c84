import type { ServedModel } from '../../../pipeline/index.ts';
import { MODEL_TYPES } from '../../../protocol/index.ts';
import type { ExampleModels, Operation } from '../route.ts';

/** Stands in examples while nothing is served. */
const NO_MODEL = 'MODEL';
const RESPONSE_ID = `resp_${'0'.repeat(32)}`;
const COMPLETION_ID = 'chatcmpl-00000000-0000-4000-8000-000000000000';

/** For each kind of request the first model that takes it; where none does, any, whose refusal then says so. */
export function exampleModels(models: readonly ServedModel[]): ExampleModels {
  const ready = models.filter(({ readiness }) => readiness.isReady);
  const any = (ready[0] ?? models[0])?.name ?? NO_MODEL;
  const of = (type: keyof ExampleModels): string =>
    ready.find(({ card }) => card.model_type.includes(type))?.name ?? any;
  const named = Object.values(MODEL_TYPES).map((type) => [type, of(type)]);
  return Object.fromEntries(named) as ExampleModels; // of every type
}

/** What stands in the place of `{id}`: a model that is there, or the form of an id that a response had. */
export function exampleId({ tag }: Pick<Operation, 'tag'>, models: ExampleModels): string {
  if (tag === 'Models') return models.Chat;
  return tag === 'Responses' ? RESPONSE_ID : COMPLETION_ID;
}
