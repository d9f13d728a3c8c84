import type { ServedModel } from '../../../pipeline/index.ts';
import { ENDPOINTS, type Endpoint } from '../../../protocol/index.ts';
import type { Operation } from '../route.ts';

/** Names of served models that examples ask for, by what they can do. */
export type ExampleModels = Readonly<Record<ServedType, string>>;

type ServedType = (typeof ENDPOINTS)[Endpoint]['modelType'];

/** Stands in examples while nothing is served. */
const NO_MODEL = 'MODEL';
const RESPONSE_ID = `resp_${'0'.repeat(32)}`;
const COMPLETION_ID = 'chatcmpl-00000000-0000-4000-8000-000000000000';
/** One pixel. */
const PICTURE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** For each kind of request the first model that takes it; where none does, any, whose refusal then says so. */
export function exampleModels(models: readonly ServedModel[]): ExampleModels {
  const ready = models.filter(({ readiness }) => readiness.isReady);
  const any = (ready[0] ?? models[0])?.name ?? NO_MODEL;
  const of = (type: ServedType): string => ready.find(({ card }) => card.model_type.includes(type))?.name ?? any;
  const named = Object.values(ENDPOINTS).map(({ modelType }) => [modelType, of(modelType)]);
  return Object.fromEntries(named) as ExampleModels; // of every row
}

/** A short body that is taken as it stands, for each schema of a body. */
export function exampleBodies(models: ExampleModels): Readonly<Record<string, object>> {
  const messages = [{ role: 'user', content: 'What are you?' }];
  const chat = { model: models.Chat, messages, max_tokens: 64 };
  const picture = { model: models.Images, prompt: 'A lighthouse at dusk', size: '512x512' };
  return {
    ChatCompletionRequest: chat,
    CompletionRequest: { model: models.Completions, prompt: 'Once upon a time', max_tokens: 32 },
    EmbeddingRequest: { model: models.Embedding, input: 'A sentence to compare with others' },
    ResponseRequest: { model: models.Chat, input: 'What are you?', max_output_tokens: 64 },
    CompactRequest: { model: models.Chat, input: 'What are you?' },
    InputTokensRequest: { model: models.Chat, input: 'What are you?' },
    MessageRequest: chat,
    CountTokensRequest: { model: models.Chat, messages },
    ImageRequest: picture,
    ImageEditRequest: { ...picture, input_reference: PICTURE },
    VideoRequest: { model: models.Videos, prompt: 'Waves that roll in', seconds: 2, size: '512x512' },
    BusyThresholdRequest: { model: models.Chat, active_decode_blocks_threshold: 0.9 },
  };
}

/** What stands in the place of `{id}`: a model that is there, or the form of an id that a response had. */
export function exampleId({ tag }: Pick<Operation, 'tag'>, models: ExampleModels): string {
  if (tag === 'Models') return models.Chat;
  return tag === 'Responses' ? RESPONSE_ID : COMPLETION_ID;
}
