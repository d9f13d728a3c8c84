import type { ErrorCode } from '../../../errors/index.ts';
import { IMAGE_EDITS_PATH, IMAGES_PATH, VIDEO_PATHS } from '../media-paths.ts';
import { BUSY_THRESHOLD_PATH } from '../routes/busy-threshold.ts';
import { CANCEL_PATH } from '../routes/cancel.ts';
import { CLEAR_KV_BLOCKS_PATH } from '../routes/clear-kv-blocks.ts';
import { EXPLAIN_PATH } from '../routes/explain-routing.ts';
import type { HttpSettings } from '../settings.ts';

/** The envelopes that failures come in. */
export type FailureName = 'Error' | 'MessagesError' | 'ThresholdError';

/** One method of one path, as the document shows it. */
export interface DescribedRoute {
  /** With `{name}` for what varies. */
  readonly path: string;
  readonly method: 'get' | 'post' | 'delete';
  /** `operationId`: unique, and the name that generated clients give it. */
  readonly id: string;
  readonly tag: 'Generation' | 'Responses' | 'Messages' | 'Models' | 'Operations';
  readonly summary: string;
  /** Name of the body's schema among the components. */
  readonly body?: string;
  /** Content types of a good answer, the usual one first. @default JSON */
  readonly answers?: readonly string[];
  /** Names of the body's schemas where it may be one of several; the first has the example. @default `body` alone */
  readonly bodies?: readonly string[];
  /** Envelope of failures. @default 'Error' */
  readonly failure?: FailureName;
  /** Failures apart from those of every route. @default those of an answer of a model where there is a body, else those of the tag */
  readonly codes?: readonly ErrorCode[];
  /** Statuses of failures that no code stands for. @default none */
  readonly statuses?: readonly number[];
  /** Statuses other than 200 whose body is no failure but the state that was asked for. @default none */
  readonly states?: readonly number[];
}

const JSON_OR_EVENTS = ['application/json', 'text/event-stream'];

/** The routes that an app with these settings serves, in the order of the page. */
export function describedRoutes({ paths, hasAdminRoutes, anthropic }: HttpSettings): readonly DescribedRoute[] {
  return [
    ...generationRoutes(paths),
    ...responsesRoutes(paths),
    ...(anthropic.isEnabled ? messagesRoutes(paths) : []),
    ...modelRoutes(paths),
    ...operationRoutes(paths, hasAdminRoutes),
  ];
}

function generationRoutes(paths: HttpSettings['paths']): readonly DescribedRoute[] {
  const route = (path: string, id: string, summary: string, body: string, answers?: readonly string[]) =>
    ({ path, method: 'post', id, tag: 'Generation', summary, body, ...(answers && { answers }) }) as const;
  const [videos, shortVideos] = VIDEO_PATHS;
  return [
    route(paths.chat, 'createChatCompletion', 'Answers a conversation.', 'ChatCompletionRequest', JSON_OR_EVENTS),
    route(paths.completions, 'createCompletion', 'Continues prompts.', 'CompletionRequest', JSON_OR_EVENTS),
    route(paths.embeddings, 'createEmbedding', 'Turns texts into vectors.', 'EmbeddingRequest'),
    route(IMAGES_PATH, 'createImage', 'Makes pictures.', 'ImageRequest'),
    route(IMAGE_EDITS_PATH, 'createImageEdit', 'Makes pictures from a picture.', 'ImageEditRequest'),
    route(videos, 'createVideo', 'Makes a video.', 'VideoRequest', JSON_OR_EVENTS),
    route(shortVideos, 'createVideoShort', 'The same under a shorter path.', 'VideoRequest', JSON_OR_EVENTS),
    route(`${videos}/stream`, 'streamVideo', 'Sends a video as motion JPEG.', 'VideoRequest', MOTION_JPEG),
    route(`${shortVideos}/stream`, 'streamVideoShort', 'The same under a shorter path.', 'VideoRequest', MOTION_JPEG),
    {
      path: `${CANCEL_PATH}/{id}`,
      method: 'post',
      id: 'cancelRequest',
      tag: 'Generation',
      summary: 'Ends a running request, by its response id or the id that the server gave it.',
      codes: ['not_found', 'service_unavailable'],
    },
  ];
}

const MOTION_JPEG = ['multipart/x-mixed-replace'];

function responsesRoutes({ responses }: HttpSettings['paths']): readonly DescribedRoute[] {
  const below = responses.endsWith('/') ? responses.slice(0, -1) : responses;
  const route = (path: string, method: DescribedRoute['method'], id: string, summary: string) =>
    ({ path, method, id, tag: 'Responses', summary }) as const;
  const create = route(responses, 'post', 'createResponse', 'Answers items, and keeps the answer when asked.');
  const count = route(`${below}/input_tokens`, 'post', 'countInputTokens', 'Estimates the tokens of items.');
  const compact = route(`${below}/compact`, 'post', 'compactResponse', 'Sums a conversation up, to go on from.');
  return [
    { ...create, body: 'ResponseRequest', answers: JSON_OR_EVENTS },
    { ...count, body: 'InputTokensRequest' },
    { ...compact, body: 'CompactRequest' },
    {
      ...route(`${below}/{id}`, 'get', 'getResponse', 'A kept answer; with stream=true its events.'),
      answers: JSON_OR_EVENTS,
    },
    route(`${below}/{id}`, 'delete', 'deleteResponse', 'Forgets a kept answer.'),
    route(`${below}/{id}/cancel`, 'post', 'cancelResponse', 'Ends an answer that is being made.'),
    route(`${below}/{id}/input_items`, 'get', 'listInputItems', 'What a kept answer was asked.'),
  ];
}

function messagesRoutes({ messages }: HttpSettings['paths']): readonly DescribedRoute[] {
  const shared = { method: 'post', tag: 'Messages', failure: 'MessagesError' } as const;
  const count = `${messages}/count_tokens`;
  return [
    {
      ...shared,
      path: messages,
      id: 'createMessage',
      summary: "Answers a conversation in Anthropic's shape.",
      body: 'MessageRequest',
      answers: JSON_OR_EVENTS,
    },
    { ...shared, path: count, id: 'countTokens', summary: 'Counts the tokens of one.', body: 'CountTokensRequest' },
  ];
}

function modelRoutes({ models }: HttpSettings['paths']): readonly DescribedRoute[] {
  const route = (path: string, id: string, summary: string) =>
    ({ path, method: 'get', id, tag: 'Models', summary }) as const;
  return [
    { ...route(models, 'listModels', 'Models that can be served now.'), codes: ['service_unavailable'] },
    route(`${models}/{id}`, 'getModel', 'One model.'),
    {
      ...route(`${models}/{id}/ready`, 'getModelReadiness', 'Whether a model can be served, and what it lacks.'),
      codes: ['model_not_found'],
      states: [503],
    },
  ];
}

function operationRoutes(paths: HttpSettings['paths'], hasAdminRoutes: boolean): readonly DescribedRoute[] {
  const get = (path: string, id: string, summary: string, answers?: readonly string[]) =>
    ({ path, method: 'get', id, tag: 'Operations', summary, ...(answers && { answers }) }) as const;
  const thresholds = {
    path: BUSY_THRESHOLD_PATH,
    method: 'post',
    id: 'setBusyThreshold',
    tag: 'Operations',
    summary: 'Reads or sets the loads above which the workers of a model are busy.',
    body: 'BusyThresholdRequest',
    failure: 'ThresholdError',
    codes: ['invalid_value', 'model_not_found', 'request_too_large', 'unsupported_media_type', 'service_unavailable'],
    statuses: [422],
  } as const;
  const clear = {
    path: CLEAR_KV_BLOCKS_PATH,
    method: 'post',
    id: 'clearKvBlocks',
    tag: 'Operations',
    summary: 'Empties the prefix cache of every worker.',
  } as const;
  const explain = {
    path: EXPLAIN_PATH,
    method: 'post',
    id: 'explainPrompt',
    tag: 'Operations',
    summary: 'Where the request of a chat or completions body would go now, and why.',
    body: 'ChatCompletionRequest',
    bodies: ['ChatCompletionRequest', 'CompletionRequest'],
    codes: [
      'invalid_value',
      'model_not_found',
      'request_too_large',
      'unsupported_media_type',
      'not_implemented',
      'server_overloaded',
      'service_unavailable',
      'deadline_exceeded',
    ],
  } as const;
  const explained = {
    ...get(`${EXPLAIN_PATH}/{id}`, 'explainRequest', 'Why a request went to its worker, by its id.'),
    codes: ['not_found', 'not_implemented', 'service_unavailable'],
  } as const;
  return [
    {
      ...get(paths.health, 'getHealth', 'State of the service, with its endpoints; of one model with ?ready=MODEL.'),
      codes: ['model_not_found'],
      states: [503],
    },
    { ...get(paths.live, 'getLive', 'Whether the process lives.'), states: [503] },
    get(paths.metrics, 'getMetrics', 'Metrics for Prometheus.', ['text/plain']),
    ...(hasAdminRoutes
      ? [
          get(BUSY_THRESHOLD_PATH, 'listBusyThresholds', 'Busy thresholds of every model.'),
          thresholds,
          clear,
          explained,
          explain,
        ]
      : []),
  ];
}
