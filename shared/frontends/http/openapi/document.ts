import * as z from 'zod';
import packageJson from '../../../../package.json' with { type: 'json' };
import { codeRow, type ErrorCode } from '../../../errors/index.ts';
import { shownKindsOf } from '../../../protocol/index.ts';
import { OVERLOAD_STATUS } from '../anthropic/wire.ts';
import type { ExampleModels, FailureName, Operation, RouteBody } from '../route.ts';
import type { HttpSettings } from '../settings.ts';
import { exampleId } from './examples.ts';

type Json = Readonly<Record<string, unknown>>;

/**
 * The OpenAPI 3.1 document of an app with these settings. The bodies are described by the very schemas that check them.
 * @param models that the examples ask for
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
    paths[operation.path] ??= {};
    paths[operation.path]![operation.method] = operationOf(operation, bodies, settings, models); // was just made
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

function operationOf(
  operation: Operation,
  bodies: readonly RouteBody[],
  settings: HttpSettings,
  models: ExampleModels,
): Json {
  const { path, method, id, tag, summary, contentTypes, states = [] } = operation;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  const state = {
    description: 'The state that was asked for: not well.',
    ...contentOf(contentTypes?.length === 0 ? [] : undefined),
  };
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(names.length === 0
      ? {}
      : { parameters: names.map((name) => pathParameter(name, exampleId(operation, models))) }),
    ...(bodies.length === 0 ? {} : { requestBody: bodyOf(bodies, models) }),
    responses: {
      200: { description: method === 'post' ? 'The answer.' : 'What was asked for.', ...contentOf(contentTypes) },
      ...failuresOf(operation, settings),
      ...Object.fromEntries(states.map((status) => [status, state])),
    },
  };
}

function pathParameter(name: string | undefined, example: string): Json {
  return { name, in: 'path', required: true, schema: { type: 'string' }, example };
}

function bodyOf(bodies: readonly RouteBody[], models: ExampleModels): Json {
  const refs = bodies.map(({ name }) => ({ $ref: `#/components/schemas/${name}` }));
  const schema = refs.length === 1 ? refs[0] : { anyOf: refs };
  return { required: true, content: { 'application/json': { schema, example: bodies[0]?.example(models) } } };
}

/** Only objects and text have a schema: of a sequence of events or pictures, readers take one for that of a part. */
function contentOf(types: readonly string[] = ['application/json']): Json {
  if (types.length === 0) return {};
  return { content: Object.fromEntries(types.map((type) => [type, CONTENTS[type] ?? {}])) };
}

const CONTENTS: Readonly<Record<string, Json>> = {
  'application/json': { schema: { type: 'object' } },
  'text/plain': { schema: { type: 'string' } },
};

/** A schema as JSON Schema; on a route that refuses unknown keys, with exactly those that can be used. */
function schemaOf({ schema, keys, ignoresOtherKeys = false }: RouteBody, { decode }: HttpSettings): Json {
  const described = describe(schema);
  if (keys === undefined || decode.ignoresUnknownKeys) return described;
  const typed: Json = described.properties ?? {};
  const properties = Object.fromEntries(keys.map((key) => [key, typed[key] ?? {}]));
  return { ...described, properties, additionalProperties: ignoresOtherKeys };
}

function describe(schema: z.ZodType): z.core.JSONSchema.BaseSchema {
  const { $schema: _dialect, ...described } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const shown = shownKindsOf(zodSchema);
      if (shown !== undefined) jsonSchema.anyOf = [...shown.kinds().map(describe), { description: shown.others }];
    },
  });
  return described;
}

/** What failures look like: one envelope, apart from two routes' own. */
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

/** Of every route: refused before anything is looked at, and mistakes of ours. */
const ANYWHERE: readonly ErrorCode[] = ['headers_too_large', 'internal_error'];
/** Of every route that reads a body. */
const BODY: readonly ErrorCode[] = [
  'invalid_value',
  'request_too_large',
  'unsupported_media_type',
  'service_unavailable',
];
/** Of every route that has a model answer. */
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

/** The codes of routes whose body says nothing else. */
const CODES_OF_TAG: Readonly<Record<Operation['tag'], readonly ErrorCode[]>> = {
  Generation: INFERENCE,
  Messages: INFERENCE,
  Responses: ['invalid_value', 'not_found', 'client_closed_request', 'service_unavailable'],
  Models: ['model_not_found', 'service_unavailable'],
  Operations: [],
};

/** A worker may refuse a request with a status of its own. */
const WORKERS_OWN = '4XX';

const ABOUT: Readonly<Record<string, string>> = {
  400: 'A field is wrong; `param` names it.',
  404: 'There is nothing of that name.',
  413: 'The body is too large.',
  415: 'The body is not of a type that is read here.',
  422: 'The body has not the shape that is asked for.',
  429: 'Too many requests; see Retry-After.',
  431: 'Too many header lines.',
  499: 'The request was cancelled.',
  500: 'A mistake of ours or of a worker.',
  501: 'Nothing here can do that.',
  502: 'The engine behind a worker gave no usable answer.',
  503: 'Nobody can take the request now; see Retry-After.',
  504: 'The answer took too long.',
  529: 'Every worker is busy; see Retry-After.',
  [WORKERS_OWN]: 'The worker refused the request.',
};
const RETRIED = new Set(['429', '503', '529']);

/** The failures of an operation by status, as references to `failureResponses`. */
export function failuresOf(operation: Operation, settings: HttpSettings): Readonly<Record<string, Json>> {
  const named = statusesOf(operation, settings).map((status) => [status, envelopeOf(operation, status)] as const);
  return Object.fromEntries(
    named.map(([status, envelope]) => [status, { $ref: `#/components/responses/${envelope}${status}` }]),
  );
}

/** Every response that the failures of `operations` refer to. */
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

/** Overload has a number of its own in Anthropic's dialect, and one that the operator chooses elsewhere. */
function statusOf(code: ErrorCode, { tag }: Operation, { overloadStatus }: HttpSettings): number {
  if (code !== 'server_overloaded') return codeRow(code).status;
  return tag === 'Messages' ? OVERLOAD_STATUS : overloadStatus;
}

/** What fails before a route's own code runs, or in it, is told in the common envelope. */
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
