import * as z from 'zod';
import packageJson from '../../../../package.json' with { type: 'json' };
import { countTokensSchema, messagesSchema } from '../../../protocol/anthropic/index.ts';
import { type BodySchema, bodySchemas } from '../../../protocol/openai/index.ts';
import type { Operation } from '../route.ts';
import type { HttpSettings } from '../settings.ts';
import { type ExampleModels, exampleBodies, exampleId } from './examples.ts';
import { FAILURES, failureResponses, failuresOf } from './failures.ts';

type Json = Readonly<Record<string, unknown>>;

const BODIES: Readonly<Record<string, BodySchema>> = {
  ...bodySchemas,
  MessageRequest: { schema: messagesSchema, keys: undefined },
  CountTokensRequest: { schema: countTokensSchema, keys: undefined },
};

/**
 * The OpenAPI 3.1 document of an app with these settings. The bodies are described by the very schemas that check them.
 * @param models that the examples ask for
 */
export function openApiDocument(operations: readonly Operation[], settings: HttpSettings, models: ExampleModels): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const operation of operations) {
    paths[operation.path] ??= {};
    paths[operation.path]![operation.method] = operationOf(operation, settings, models); // was just made
  }
  const used = new Set(operations.map(({ body }) => body));
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
    tags: [...new Set(operations.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas: {
        ...Object.fromEntries(schemas.map(([name, body]) => [name, schemaOf(body, settings)])),
        ...FAILURES,
      },
      responses: failureResponses(operations, settings),
    },
  };
}

function operationOf(operation: Operation, settings: HttpSettings, models: ExampleModels): Json {
  const { path, method, id, tag, summary, contentTypes, states = [] } = operation;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  const state = { description: 'The state that was asked for: not well.', content: contentOf() };
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(names.length === 0
      ? {}
      : { parameters: names.map((name) => pathParameter(name, exampleId(operation, models))) }),
    ...(operation.body === undefined ? {} : { requestBody: bodyOf(operation.bodies ?? [operation.body], models) }),
    responses: {
      200: { description: method === 'post' ? 'The answer.' : 'What was asked for.', content: contentOf(contentTypes) },
      ...failuresOf(operation, settings),
      ...Object.fromEntries(states.map((status) => [status, state])),
    },
  };
}

function pathParameter(name: string | undefined, example: string): Json {
  return { name, in: 'path', required: true, schema: { type: 'string' }, example };
}

function bodyOf(names: readonly string[], models: ExampleModels): Json {
  const refs = names.map((name) => ({ $ref: `#/components/schemas/${name}` }));
  const schema = refs.length === 1 ? refs[0] : { anyOf: refs };
  const example = exampleBodies(models)[names[0] ?? ''];
  return { required: true, content: { 'application/json': { schema, ...(example && { example }) } } };
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
