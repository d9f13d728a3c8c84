import * as z from 'zod';
import packageJson from '../../../../package.json' with { type: 'json' };
import { codeRow, type ErrorCode } from '../../../errors/index.ts';
import { shownKindsOf } from '../../../protocol/index.ts';
import { OVERLOAD_STATUS } from '../anthropic/wire.ts';
import type { AnswerSchemas, ExampleModels, FailureName, Operation, QueryParameter, RouteBody } from '../route.ts';
import type { HttpSettings } from '../settings.ts';
import { exampleId } from './examples.ts';

type Json = Readonly<Record<string, unknown>>;

/**
 * Returns the OpenAPI 3.1 document of an app with these settings. The schemas that check bodies also describe them.
 * @param models names of models for the examples
 */
export async function openApiDocument(
  operations: readonly Operation[],
  settings: HttpSettings,
  models: ExampleModels,
): Promise<Json> {
  const schemas = new Map<string, Json>();
  const paths: Record<string, Record<string, Json>> = {};
  for (const operation of operations) {
    const bodies = await Promise.all((operation.bodies ?? []).map((load) => load()));
    for (const body of bodies) if (!schemas.has(body.name)) schemas.set(body.name, schemaOf(body, settings));
    const answer = await operation.answer?.();
    for (const [name, schema] of schemasIn(answer)) schemas.set(name, describe(schema, 'output'));
    paths[operation.path] ??= {};
    const facts = { settings, models, answer };
    paths[operation.path]![operation.method] = operationOf(operation, bodies, facts); // was just made
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Stator',
      version: packageJson.version,
      description: packageJson.description,
      license: { name: packageJson.license, identifier: packageJson.license },
    },
    servers: [{ url: '/' }],
    tags: [...new Set(operations.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas: {
        ...Object.fromEntries(schemas),
        ...FAILURES,
      },
      responses: failureResponses(operations, settings),
    },
  };
}

interface OperationFacts {
  readonly settings: HttpSettings;
  readonly models: ExampleModels;
  readonly answer: AnswerSchemas | undefined;
}

function operationOf(
  operation: Operation,
  bodies: readonly RouteBody[],
  { settings, models, answer }: OperationFacts,
): Json {
  const { path, method, id, tag, summary, contentTypes, states = [], query = [] } = operation;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  const parameters = [
    ...names.map((name) => pathParameter(name, exampleId(operation, models))),
    ...query.map(queryParameter),
  ];
  const state = {
    description: 'The state that was asked for: not well.',
    ...contentOf(contentTypes?.length === 0 ? [] : undefined),
  };
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(bodies.length === 0 ? {} : { requestBody: bodyOf(bodies, models) }),
    responses: {
      200: {
        description: method === 'post' ? 'The answer.' : 'What was asked for.',
        ...contentOf(contentTypes, answer),
      },
      ...failuresOf(operation, settings),
      ...Object.fromEntries(states.map((status) => [status, state])),
    },
  };
}

function pathParameter(name: string | undefined, example: string): Json {
  return { name, in: 'path', required: true, schema: { type: 'string' }, example };
}

function queryParameter({ name, about, values }: QueryParameter): Json {
  const schema = { type: 'string', ...(values === undefined ? {} : { enum: values }) };
  return { name, in: 'query', description: about, schema };
}

/** Returns every schema of an answer, by its name. */
function schemasIn(answer: AnswerSchemas | undefined): readonly (readonly [string, z.ZodType])[] {
  return [...Object.entries(answer?.json ?? {}), ...Object.values(answer?.events ?? {})];
}

function bodyOf(bodies: readonly RouteBody[], models: ExampleModels): Json {
  const refs = bodies.map(({ name }) => ({ $ref: `#/components/schemas/${name}` }));
  const schema = refs.length === 1 ? refs[0] : { anyOf: refs };
  return { required: true, content: { 'application/json': { schema, example: bodies[0]?.example(models) } } };
}

/**
 * Returns the content of a response. Only objects and text have a schema: readers would take a schema of a stream of
 * events or pictures for that of one part. The schemas of events are in `x-events`, by the events' names.
 */
function contentOf(types: readonly string[] = ['application/json'], answer?: AnswerSchemas): Json {
  if (types.length === 0) return {};
  const contents = answer === undefined ? CONTENTS : { ...CONTENTS, ...contentsOf(answer) };
  return { content: Object.fromEntries(types.map((type) => [type, contents[type] ?? {}])) };
}

function contentsOf({ json, events = {} }: AnswerSchemas): Readonly<Record<string, Json>> {
  const refs = Object.keys(json).map(refTo);
  const named = Object.entries(events).map(([event, [name]]) => [event, refTo(name)]);
  return {
    'application/json': { schema: refs.length === 1 ? refs[0] : { anyOf: refs } },
    'text/event-stream': { 'x-events': Object.fromEntries(named) },
  };
}

function refTo(name: string): Json {
  return { $ref: `#/components/schemas/${name}` };
}

const CONTENTS: Readonly<Record<string, Json>> = {
  'application/json': { schema: { type: 'object' } },
  'text/plain': { schema: { type: 'string' } },
};

/**
 * Returns a schema as JSON Schema. On a route that refuses unknown keys it has exactly the keys that the route uses.
 */
function schemaOf({ schema, keys, ignoresOtherKeys = false }: RouteBody, { decode }: HttpSettings): Json {
  const described = describe(schema);
  if (keys === undefined || decode.ignoresUnknownKeys) return described;
  const typed: Json = described.properties ?? {};
  const properties = Object.fromEntries(keys.map((key) => [key, typed[key] ?? {}]));
  return { ...described, properties, additionalProperties: ignoresOtherKeys };
}

function describe(schema: z.ZodType, io: 'input' | 'output' = 'input'): z.core.JSONSchema.BaseSchema {
  const { $schema: _dialect, ...described } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const shown = shownKindsOf(zodSchema);
      if (shown !== undefined)
        jsonSchema.anyOf = [...shown.kinds().map((kind) => describe(kind)), { description: shown.others }];
    },
  });
  return described;
}

/** Bodies of failures: one common envelope, and one of their own for two routes. */
export const FAILURES = {
  Error: {
    type: 'object',
    required: ['error'],
    properties: {
      error: {
        type: 'object',
        required: ['message', 'type', 'param', 'code'],
        properties: {
          message: { type: 'string' },
          type: { type: 'string' },
          param: { type: ['string', 'null'], description: 'JSON path of the field that is wrong.' },
          code: { type: ['string', 'null'], description: 'Stable name of the failure.' },
        },
      },
    },
  },
  MessagesError: {
    type: 'object',
    required: ['type', 'error'],
    properties: {
      type: { const: 'error' },
      error: {
        type: 'object',
        required: ['type', 'message'],
        properties: { type: { type: 'string' }, message: { type: 'string' } },
      },
      request_id: { type: 'string' },
    },
  },
  ThresholdError: { type: 'object', required: ['error'], properties: { error: { type: 'string' } } },
} as const satisfies Readonly<Record<FailureName, Json>>;

/** Failures of every route: refused before anything was read, and bugs. */
const ANYWHERE: readonly ErrorCode[] = ['headers_too_large', 'internal_error'];
/** Failures of every route that reads a body. */
const BODY: readonly ErrorCode[] = [
  'invalid_value',
  'request_too_large',
  'unsupported_media_type',
  'service_unavailable',
];
/** Failures of every route that a model answers. */
const INFERENCE: readonly ErrorCode[] = [
  ...BODY,
  'model_not_found',
  'rate_limit_exceeded',
  'client_closed_request',
  'not_implemented',
  'bad_worker_response',
  'server_overloaded',
  'deadline_exceeded',
];

/** Codes of routes whose bodies have no other failures. */
const CODES_OF_TAG: Readonly<Record<Operation['tag'], readonly ErrorCode[]>> = {
  Generation: INFERENCE,
  Messages: INFERENCE,
  Responses: ['invalid_value', 'not_found', 'client_closed_request', 'service_unavailable'],
  Models: ['model_not_found', 'service_unavailable'],
  Operations: [],
};

/** Status range of a worker's own refusal. */
const WORKERS_OWN = '4XX';

const ABOUT: Readonly<Record<string, string>> = {
  400: 'A field is wrong; `param` names it.',
  401: 'A valid key is required.',
  403: 'The key, or the machine of the client, has not this right.',
  404: 'Nothing has that name.',
  413: 'The body is too large.',
  415: 'This route does not read bodies of that type.',
  422: 'The body does not have the required shape.',
  429: 'Too many requests; see Retry-After.',
  431: 'Too many header lines.',
  499: 'The request was cancelled.',
  500: 'The server or a worker made a mistake.',
  501: 'This deployment cannot do that.',
  502: 'The engine behind a worker gave no usable answer.',
  503: 'No worker can take the request now; see Retry-After.',
  504: 'The answer took too long.',
  529: 'Every worker is busy; see Retry-After.',
  [WORKERS_OWN]: 'The worker refused the request.',
};
const RETRIED = new Set(['429', '503', '529']);

/** Returns the failures of an operation by status, as references to `failureResponses`. */
export function failuresOf(operation: Operation, settings: HttpSettings): Readonly<Record<string, Json>> {
  const named = statusesOf(operation, settings).map((status) => [status, envelopeOf(operation, status)] as const);
  return Object.fromEntries(
    named.map(([status, envelope]) => [status, { $ref: `#/components/responses/${envelope}${status}` }]),
  );
}

/** Returns every response that the failures of `operations` refer to. */
export function failureResponses(operations: readonly Operation[], settings: HttpSettings): Json {
  const responses: Record<string, Json> = {};
  for (const operation of operations) {
    for (const status of statusesOf(operation, settings)) {
      const envelope = envelopeOf(operation, status);
      responses[`${envelope}${status}`] = responseOf(envelope, status);
    }
  }
  return responses;
}

function statusesOf(operation: Operation, settings: HttpSettings): readonly string[] {
  const isInference = operation.bodies !== undefined && operation.tag !== 'Operations';
  const codes = [...ANYWHERE, ...(operation.codes ?? (isInference ? INFERENCE : CODES_OF_TAG[operation.tag]))];
  const statuses = codes.map((code) => String(statusOf(code, operation, settings)));
  const own = operation.statuses?.map(String) ?? [];
  return [...new Set([...statuses, ...own, ...(isInference ? [WORKERS_OWN] : [])])].sort();
}

/**
 * Returns the status of a code. Overload has a status of its own in Anthropic's dialect, and elsewhere the operator's.
 */
function statusOf(code: ErrorCode, { tag }: Operation, { overloadStatus }: HttpSettings): number {
  if (code !== 'server_overloaded') return codeRow(code).status;
  return tag === 'Messages' ? OVERLOAD_STATUS : overloadStatus;
}

/** Returns the envelope of a failure. What fails before a route's own code runs, or in it, has the common envelope. */
function envelopeOf({ failure = 'Error' }: Operation, status: string): FailureName {
  return failure === 'ThresholdError' && (status === '431' || status === '500') ? 'Error' : failure;
}

function responseOf(envelope: FailureName, status: string): Json {
  const content = { 'application/json': { schema: { $ref: `#/components/schemas/${envelope}` } } };
  const description = ABOUT[status] ?? 'The request failed.';
  if (!RETRIED.has(status)) return { description, content };
  const retryAfter = { description: 'Seconds until another try may do better.', schema: { type: 'integer' } };
  return { description, headers: { 'Retry-After': retryAfter }, content };
}
