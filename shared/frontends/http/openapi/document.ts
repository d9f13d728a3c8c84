import * as z from 'zod';
import packageJson from '../../../../package.json' with { type: 'json' };
import { countTokensSchema, messagesSchema } from '../../../protocol/anthropic/index.ts';
import { type BodySchema, bodySchemas } from '../../../protocol/openai/index.ts';
import type { HttpSettings } from '../settings.ts';
import { type DescribedRoute, describedRoutes, type FailureName } from './described-routes.ts';

type Json = Readonly<Record<string, unknown>>;

const BODIES: Readonly<Record<string, BodySchema>> = {
  ...bodySchemas,
  MessageRequest: { schema: messagesSchema, keys: undefined },
  CountTokensRequest: { schema: countTokensSchema, keys: undefined },
};

/** What failures look like, whatever their status: one envelope (rulings.md, 1), apart from two routes' own. */
const FAILURES = {
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

/**
 * The OpenAPI 3.1 document of an app with these settings (http-api.md, section 10.4). The bodies are described by the very
 * schemas that check them.
 */
export function openApiDocument(settings: HttpSettings): Json {
  const routes = describedRoutes(settings);
  const paths: Record<string, Record<string, Json>> = {};
  for (const route of routes) {
    paths[route.path] ??= {};
    paths[route.path]![route.method] = operationOf(route); // was just made
  }
  const used = new Set(routes.map(({ body }) => body));
  const schemas = Object.entries(BODIES).filter(([name]) => used.has(name));
  return {
    openapi: '3.1.0',
    info: {
      title: 'Stator',
      version: packageJson.version,
      description: packageJson.description,
      license: { name: packageJson.license, identifier: packageJson.license },
    },
    servers: [{ url: '/' }],
    tags: [...new Set(routes.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas: {
        ...Object.fromEntries(schemas.map(([name, body]) => [name, schemaOf(body, settings)])),
        ...FAILURES,
      },
      responses: Object.fromEntries(Object.keys(FAILURES).map((name) => [name, failureOf(name)])),
    },
  };
}

function failureOf(schema: string): Json {
  const content = { 'application/json': { schema: { $ref: `#/components/schemas/${schema}` } } };
  return { description: 'The request failed.', content };
}

function operationOf({ path, method, id, tag, summary, body, answers, failure = 'Error' }: DescribedRoute): Json {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(names.length === 0 ? {} : { parameters: names.map(pathParameter) }),
    ...(body === undefined ? {} : { requestBody: bodyOf(body) }),
    responses: {
      200: { description: method === 'post' ? 'The answer.' : 'What was asked for.', content: contentOf(answers) },
      default: { $ref: `#/components/responses/${failure}` },
    },
  };
}

function pathParameter(name: string | undefined): Json {
  return { name, in: 'path', required: true, schema: { type: 'string' } };
}

function bodyOf(name: string): Json {
  return { required: true, content: { 'application/json': { schema: { $ref: `#/components/schemas/${name}` } } } };
}

/** Only objects and text have a schema: of a sequence of events or pictures, readers take one for that of a part. */
function contentOf(types: readonly string[] = ['application/json']): Json {
  return Object.fromEntries(types.map((type) => [type, CONTENTS[type] ?? {}]));
}

const CONTENTS: Readonly<Record<string, Json>> = {
  'application/json': { schema: { type: 'object' } },
  'text/plain': { schema: { type: 'string' } },
};

/** A schema as JSON Schema; on a route that refuses unknown keys, with exactly those that can be used. */
function schemaOf({ schema, keys, ignoresOtherKeys = false }: BodySchema, { decode }: HttpSettings): Json {
  const { $schema: _dialect, ...described } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  if (keys === undefined || decode.ignoresUnknownKeys) return described;
  const typed: Json = described.properties ?? {};
  const properties = Object.fromEntries(keys.map((key) => [key, typed[key] ?? {}]));
  return { ...described, properties, additionalProperties: ignoresOtherKeys };
}
