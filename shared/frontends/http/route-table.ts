import { consolePages, consoleRoutes } from './console/routes.ts';
import { responsesRoutes } from './openai/responses/routes.ts';
import { DOCS_PATH, OPENAPI_PATH, redirectToDocs, serveDocs, serveOpenApi, serveRoot } from './openapi/serve-docs.ts';
import {
  BUSY_THRESHOLD_PATH,
  bodyRoutes,
  CLEAR_KV_BLOCKS_PATH,
  EXPLAIN_PATH,
  pathBelow,
  type Route,
  route,
  serveLater,
} from './route.ts';
import { CANCEL_PATH, serveCancel } from './routes/cancel.ts';
import { serveHealth, serveLive, serveMetrics, servePing, serveVersion } from './routes/health.ts';
import { modelAccess, serveModel, serveModelList } from './routes/models.ts';
import type { HttpSettings } from './settings.ts';

/* Code that reads bodies is loaded when the first body of its kind comes, because the schemas would slow the start. */
const loadChat = async () => (await import('./openai/chat.ts')).chat;
const loadCompletions = async () => (await import('./openai/completions.ts')).completions;
const loadBusyThreshold = async () => (await import('./routes/admin.ts')).busyThreshold;
const serveBusyThreshold = serveLater(async () => (await loadBusyThreshold()).serve);
const serveClearKvBlocks = serveLater(async () => (await import('./routes/admin.ts')).serveClearKvBlocks);
const serveExplain = serveLater(async () => (await import('./routes/admin.ts')).serveExplain);
const serveExplained = serveLater(async () => (await import('./routes/admin.ts')).serveExplained);

const JSON_OR_EVENTS = ['application/json', 'text/event-stream'];
const MOTION_JPEG = ['multipart/x-mixed-replace'];
/** Documented path of videos and its alias; each has a `/stream` below it. */
const VIDEO_PATHS = [
  ['/v1/videos/generations', '', 'Makes a video.', 'Sends a video as motion JPEG.'],
  [
    '/v1/videos',
    'Short',
    'Makes a video, as /v1/videos/generations does.',
    'Sends a video as motion JPEG, as /v1/videos/generations/stream does.',
  ],
] as const;

/**
 * Returns every route that an app with these settings serves, in the order of the page at /docs. To add a route, add it
 * here: the app, the `allow` header and the OpenAPI document read only this table.
 */
export function routesOf(settings: HttpSettings): readonly Route[] {
  const { paths, anthropic, hasAdminRoutes, hasConsole, servesClients = true, docsAuth } = settings;
  const pages = docsAuth === true ? 'docs' : 'open';
  const described = [
    ...(servesClients ? clientRoutes(paths) : []),
    ...(servesClients && anthropic.isEnabled ? messagesRoutes(paths) : []),
    ...modelRoutes(paths),
    ...operationRoutes(settings),
    ...(hasAdminRoutes ? adminRoutes() : []),
    ...(hasConsole ? consoleRoutes() : []),
  ];
  return [
    ...described,
    route('/', pages, serveRoot),
    ...(hasConsole ? consolePages() : []),
    route(OPENAPI_PATH, pages, serveOpenApi(described.flatMap(({ operations }) => operations))),
    route(DOCS_PATH, pages, redirectToDocs),
    route(`${DOCS_PATH}/`, pages, serveDocs),
    route(`${DOCS_PATH}/:file`, pages, serveDocs),
  ];
}

function clientRoutes(paths: HttpSettings['paths']): readonly Route[] {
  const made = bodyRoutes('Generation');
  const loadEmbeddings = async () => (await import('./openai/embeddings.ts')).embeddings;
  const loadTokenize = async () => (await import('./routes/tokenize.ts')).tokenize;
  const loadDetokenize = async () => (await import('./routes/tokenize.ts')).detokenize;
  const loadImages = async () => (await import('./openai/images.ts')).images;
  const loadEdits = async () => (await import('./openai/images.ts')).imageEdits;
  const loadVideos = async () => (await import('./openai/videos.ts')).videos;
  const loadMotionJpeg = async () => (await import('./openai/videos.ts')).motionJpeg;
  return [
    made(paths.chat, loadChat, 'createChatCompletion', 'Answers a conversation.', JSON_OR_EVENTS),
    made(paths.completions, loadCompletions, 'createCompletion', 'Continues prompts.', JSON_OR_EVENTS),
    made(paths.embeddings, loadEmbeddings, 'createEmbedding', 'Turns texts into vectors.'),
    made('/v1/images/generations', loadImages, 'createImage', 'Makes pictures.'),
    made('/v1/images/edits', loadEdits, 'createImageEdit', 'Makes pictures from a picture.'),
    ...VIDEO_PATHS.flatMap(([path, suffix, video, pictures]) => [
      made(path, loadVideos, `createVideo${suffix}`, video, JSON_OR_EVENTS),
      made(`${path}/stream`, loadMotionJpeg, `streamVideo${suffix}`, pictures, MOTION_JPEG),
    ]),
    route(`${CANCEL_PATH}/{id}`, 'inference', serveCancel, {
      method: 'post',
      id: 'cancelRequest',
      tag: 'Generation',
      summary: 'Ends a running request, by its response id or the id that the server gave it.',
      codes: ['not_found', 'service_unavailable'],
    }),
    made('/tokenize', loadTokenize, 'tokenize', 'Tells the tokens of a prompt or a chat.'),
    made('/detokenize', loadDetokenize, 'detokenize', 'Tells the text of tokens.'),
    ...responsesRoutes(paths.responses),
  ];
}

function messagesRoutes({ messages }: HttpSettings['paths']): readonly Route[] {
  const made = bodyRoutes('Messages', 'MessagesError');
  const loadMessages = async () => (await import('./anthropic/messages.ts')).messages;
  const loadCount = async () => (await import('./anthropic/count-tokens.ts')).countTokens;
  return [
    made(messages, loadMessages, 'createMessage', "Answers a conversation in Anthropic's shape.", JSON_OR_EVENTS),
    made(
      `${pathBelow(messages)}/count_tokens`,
      loadCount,
      'countTokens',
      'Counts the input tokens of a message request.',
    ),
  ];
}

function modelRoutes({ models }: HttpSettings['paths']): readonly Route[] {
  const shared = { method: 'get', tag: 'Models' } as const;
  const model = `${pathBelow(models)}/{id}`;
  return [
    route(models, 'key', serveModelList, {
      ...shared,
      id: 'listModels',
      summary: 'Models that can be served now.',
      codes: ['service_unavailable'],
    }),
    route(
      model,
      modelAccess,
      serveModel,
      { ...shared, id: 'getModel', summary: 'One model.' },
      {
        ...shared,
        path: `${model}/ready`,
        id: 'getModelReadiness',
        summary: 'Whether a model can be served, and what it lacks.',
        codes: ['model_not_found'],
        states: [503],
      },
    ),
  ];
}

function operationRoutes({ paths: { health, live, metrics }, metricsAuth }: HttpSettings): readonly Route[] {
  const shared = { method: 'get', tag: 'Operations' } as const;
  const empty = { ...shared, contentTypes: [], states: [503] };
  return [
    route(health, 'open', serveHealth, {
      ...shared,
      id: 'getHealth',
      summary: 'State of the service, with its endpoints; of one model with ?ready=MODEL.',
      codes: ['model_not_found'],
      states: [503],
    }),
    route(live, 'open', serveLive, {
      ...shared,
      id: 'getLive',
      summary: 'Whether the process lives.',
      states: [503],
    }),
    route(
      '/ping',
      'open',
      servePing,
      { ...empty, id: 'getPing', summary: 'Whether the process lives, as an empty body.' },
      { ...empty, method: 'post', id: 'postPing', summary: 'Answers as GET /ping does.' },
    ),
    route('/version', 'key', serveVersion, { ...shared, id: 'getVersion', summary: 'Version of the server.' }),
    route(metrics, metricsAuth === true ? 'metrics' : 'open', serveMetrics, {
      ...shared,
      id: 'getMetrics',
      summary: 'Metrics for Prometheus.',
      contentTypes: ['text/plain'],
    }),
  ];
}

/** Returns the routes about the fleet, which are for operators. */
function adminRoutes(): readonly Route[] {
  const tag = 'Operations';
  return [
    route(
      BUSY_THRESHOLD_PATH,
      'admin',
      serveBusyThreshold,
      {
        tag,
        method: 'post',
        id: 'setBusyThreshold',
        summary: 'Reads or sets the loads above which the workers of a model are busy.',
        bodies: [async () => (await loadBusyThreshold()).body],
        failure: 'ThresholdError',
        codes: [
          'invalid_value',
          'model_not_found',
          'request_too_large',
          'unsupported_media_type',
          'service_unavailable',
        ],
        statuses: [422],
      },
      {
        tag,
        method: 'get',
        id: 'listBusyThresholds',
        summary: 'Busy thresholds of every model.',
      },
    ),
    route(CLEAR_KV_BLOCKS_PATH, 'admin', serveClearKvBlocks, {
      tag,
      method: 'post',
      id: 'clearKvBlocks',
      summary: 'Empties the prefix cache of every worker.',
    }),
    route(`${EXPLAIN_PATH}/{id}`, 'admin', serveExplained, {
      tag,
      method: 'get',
      id: 'explainRequest',
      summary: 'Why a request went to its worker, by its id; 501 unless the router mode is kv.',
      codes: ['not_found', 'not_implemented', 'service_unavailable'],
    }),
    route(EXPLAIN_PATH, 'admin', serveExplain, {
      tag,
      method: 'post',
      id: 'explainPrompt',
      summary:
        'Where the request of a chat or completions body would go now, and why; 501 unless the router mode is kv.',
      bodies: [async () => (await loadChat()).body, async () => (await loadCompletions()).body],
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
    }),
  ];
}
