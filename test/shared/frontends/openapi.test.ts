import { describe, expect, it } from 'vitest';
import type { HttpSettings } from '../../../shared/frontends/http/settings.ts';
import type { ServedModel } from '../../../shared/pipeline/index.ts';
import { createTestApp } from '../../support/http-app.ts';
import { defaultHttpSettings } from '../../support/http-settings.ts';
import { playTexts, ScriptedPipeline, servedModel } from '../../support/scripted-pipeline.ts';

type Json = Record<string, unknown>;
interface Ref {
  readonly $ref: string;
}
interface Document {
  readonly openapi: string;
  readonly info: { readonly version: string };
  readonly paths: Record<string, Record<string, Json & { operationId: string; responses: Record<string, Ref> }>>;
  readonly components: {
    readonly schemas: Record<string, Json & { properties: Json }>;
    readonly responses: Record<string, { content: Record<string, { schema: Ref }> }>;
  };
}

async function get(path: string, settings: Partial<HttpSettings> = {}) {
  const response = await createTestApp({ settings }).app.fetch(new Request(`http://localhost${path}`));
  return { status: response.status, headers: response.headers, text: await response.text() };
}

async function readDocument(settings: Partial<HttpSettings> = {}): Promise<Document> {
  return JSON.parse((await get('/openapi.json', settings)).text);
}

function* refsIn(value: unknown): Generator<string> {
  if (typeof value !== 'object' || value === null) return;
  for (const [key, nested] of Object.entries(value)) {
    if (key === '$ref' && typeof nested === 'string') yield nested;
    else yield* refsIn(nested);
  }
}

describe('GET /openapi.json', () => {
  it('is a document whose references all lead somewhere and whose operations have names of their own', async () => {
    const document = await readDocument({ anthropic: { isEnabled: true, stripsPreamble: true } });
    expect(document.openapi).toBe('3.1.0');
    for (const ref of refsIn(document)) {
      const found = ref
        .slice(2)
        .split('/')
        .reduce<unknown>((at, step) => (at as Json)?.[step], document);
      expect(found, ref).toBeDefined();
    }
    const ids = Object.values(document.paths).flatMap((methods) =>
      Object.values(methods).map((one) => one.operationId),
    );
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('names only routes that are there, with the methods that they take', async () => {
    const anthropic = { isEnabled: true, stripsPreamble: true };
    const { paths } = await readDocument({ anthropic });
    const adminKey = 'k'.repeat(32);
    const { app } = createTestApp({ settings: { anthropic, adminKey } });
    const headers = { authorization: `Bearer ${adminKey}` };
    expect(paths).toHaveProperty(['/v1/messages/count_tokens']);
    for (const [path, methods] of Object.entries(paths)) {
      const url = `http://localhost${path.replaceAll(/\{\w+\}/g, 'resp_x')}`;
      const refused = await app.fetch(new Request(url, { method: 'PUT', headers }));
      expect(refused.status, path).toBe(405);
      const allowed = (refused.headers.get('allow') ?? '').toLowerCase().split(',');
      expect(allowed, path).toEqual(expect.arrayContaining(Object.keys(methods)));
    }
  });

  it('names the statuses that each operation can end with, in the envelope of its dialect', async () => {
    const anthropic = { isEnabled: true, stripsPreamble: true };
    const { paths, components } = await readDocument({ anthropic, overloadStatus: 529 });
    const envelopeOf = (path: string, method: string, status: string): string | undefined => {
      const name = paths[path]?.[method]?.responses[status]?.$ref.split('/').at(-1);
      return components.responses[name ?? '']?.content['application/json']?.schema.$ref.split('/').at(-1);
    };
    const statusesOf = (path: string, method = 'post') => Object.keys(paths[path]?.[method]?.responses ?? {});
    const answer = ['200', '400', '404', '413', '415', '429', '431', '499', '500', '501', '502', '503', '504', '529'];
    expect(statusesOf('/v1/chat/completions')).toEqual([...answer, '4XX']);
    expect(statusesOf('/v1/messages')).toEqual([...answer, '4XX']);
    expect(statusesOf('/v1/models', 'get')).toEqual(['200', '431', '500', '503']);
    expect(statusesOf('/busy_threshold')).toEqual(['200', '400', '404', '413', '415', '422', '431', '500', '503']);
    expect(envelopeOf('/v1/chat/completions', 'post', '404')).toBe('Error');
    expect(envelopeOf('/v1/messages', 'post', '404')).toBe('MessagesError');
    expect(envelopeOf('/busy_threshold', 'post', '422')).toBe('ThresholdError');
    for (const methods of Object.values(paths))
      for (const { responses } of Object.values(methods)) expect(responses).not.toHaveProperty('default');
  });

  it('has examples that ask for a model that is served, as they come and go', async () => {
    const models: ServedModel[] = [];
    const { app } = createTestApp({ pipeline: new ScriptedPipeline(models) });
    const exampleOf = async (path: string): Promise<unknown> => {
      const { paths } = (await (await app.fetch(new Request('http://localhost/openapi.json'))).json()) as Document;
      const body = paths[path]?.post?.requestBody as { content: Record<string, { example: { model: string } }> };
      return body.content['application/json']?.example.model;
    };
    expect(await exampleOf('/v1/chat/completions')).toBe('MODEL');
    models.push(servedModel('embedder', { card: { ...servedModel('embedder').card, model_type: ['Embedding'] } }));
    expect(await exampleOf('/v1/chat/completions')).toBe('embedder');
    models.push(servedModel('talker'));
    expect(await exampleOf('/v1/chat/completions')).toBe('talker');
    expect(await exampleOf('/v1/embeddings')).toBe('embedder');
  });

  it('says which answers are empty, and what routers of other modes cannot do', async () => {
    const { paths } = await readDocument();
    for (const method of ['get', 'post']) {
      for (const status of ['200', '503']) {
        expect(paths['/ping']?.[method]?.responses[status]).not.toHaveProperty('content');
      }
    }
    for (const [path, method] of [
      ['/router/explain/{id}', 'get'],
      ['/router/explain', 'post'],
    ] as const) {
      const operation = paths[path]?.[method];
      expect(operation?.responses).toHaveProperty('501');
      expect(operation?.summary).toMatch(/501 unless the router mode is kv/);
    }
  });

  it('follows the paths and switches of the deployment', async () => {
    const { paths } = await readDocument({
      paths: { ...defaultHttpSettings.paths, chat: '/b/chat', models: '/b/m' },
      hasAdminRoutes: false,
    });
    expect(Object.keys(paths)).toEqual(expect.arrayContaining(['/b/chat', '/b/m', '/b/m/{id}']));
    expect(paths).not.toHaveProperty(['/v1/chat/completions']);
    expect(paths).not.toHaveProperty(['/busy_threshold']);
    expect(paths).not.toHaveProperty(['/v1/messages']);
  });

  it('says of each body what its check says', async () => {
    const { schemas } = (await readDocument()).components;
    expect(schemas.ChatCompletionRequest).toMatchObject({
      required: ['messages', 'model'],
      properties: {
        max_tokens: { anyOf: [{ type: 'integer', minimum: 1, maximum: 4_294_967_295 }, { type: 'null' }] },
        verbosity: {},
      },
      additionalProperties: false,
    });
    for (const name of ['ChatCompletionRequest', 'CompletionRequest']) {
      expect(schemas[name]).toHaveProperty('then', { properties: { stream: { const: true } }, required: ['stream'] });
    }
    expect(schemas.CompletionRequest).toHaveProperty('anyOf');
    expect(schemas.ResponseRequest).toMatchObject({
      required: ['model'],
      anyOf: [{ required: ['input'] }, { required: ['previous_response_id'] }],
      properties: { model: { type: 'string' } },
    });
    expect(schemas.CompactRequest).toHaveProperty('anyOf');
    expect(schemas.TokenizeRequest).toHaveProperty('oneOf');
    expect(schemas.BusyThresholdRequest?.properties.active_prefill_tokens_threshold_frac).toMatchObject({
      anyOf: [{ type: 'number', minimum: 0 }, { type: 'null' }],
    });
    expect(schemas.EmbeddingRequest).not.toHaveProperty('additionalProperties', false);
    const lenient = await readDocument({
      decode: { ...defaultHttpSettings.decode, ignoresUnknownKeys: true },
    });
    expect(lenient.components.schemas.ChatCompletionRequest).not.toHaveProperty('additionalProperties', false);
  });
});

type Arm = Json & { properties: Record<string, Json>; required?: readonly string[] };

/** The kinds that the document shows of an element of a list. */
const armsOf = (element: unknown): readonly Arm[] =>
  (element as { anyOf: readonly Arm[] }).anyOf.filter((arm) => 'properties' in arm);

/** The least that a schema of the document takes. */
function leastOf(schema: Json): unknown {
  const [first] = (schema.oneOf ?? schema.anyOf ?? []) as readonly Json[];
  if (first !== undefined) return leastOf(first);
  if ('const' in schema) return schema.const;
  if (schema.enum !== undefined) return (schema.enum as readonly unknown[])[0];
  if (schema.type === 'string') return 'x';
  if (schema.type === 'array') return [];
  const { properties, required = [] } = schema as Arm;
  return Object.fromEntries(required.map((name) => [name, leastOf(properties[name] ?? {})]));
}

describe('what /openapi.json says of the parts of a conversation', async () => {
  const settings = { anthropic: { isEnabled: true, stripsPreamble: true } };
  const { schemas } = (await readDocument(settings)).components;
  const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['a']));
  const { app } = createTestApp({ pipeline, settings });
  const send = async (path: string, body: object) => {
    const headers = { 'content-type': 'application/json' };
    const init = { method: 'POST', headers, body: JSON.stringify({ model: 'm', ...body }) };
    const response = await app.fetch(new Request(`http://localhost${path}`, init));
    return { status: response.status, text: await response.text() };
  };
  const inputOrNull = schemas.ResponseRequest?.properties.input as { anyOf: readonly [typeof user, Json] };
  const [input] = inputOrNull.anyOf;
  const items = armsOf(input.anyOf[1].items);
  const messages = schemas.MessageRequest?.properties.messages as { items: { oneOf: readonly Arm[] } };
  const user = messages.items.oneOf[0]?.properties.content as { anyOf: readonly [Json, Json & { items: Json }] };
  const blocks = armsOf(user.anyOf[1].items);
  const sendItem = (item: unknown) => send('/v1/responses', { input: [{ role: 'user', content: 'hi' }, item] });
  const sendBlock = (block: unknown) =>
    send('/v1/messages', { max_tokens: 3, messages: [{ role: 'user', content: [block] }] });
  const cases = [
    ...blocks.map((arm) => ({ kind: `block ${arm.properties.type?.const}`, arm, send: sendBlock })),
    ...items.map((arm) => ({ kind: `item ${arm.properties.type?.const ?? 'message'}`, arm, send: sendItem })),
  ];

  it('names every kind of block and of item', () => {
    expect(cases.map(({ kind }) => kind)).toEqual([
      ...['text', 'image', 'document', 'search_result'].map((type) => `block ${type}`),
      ...['tool_use', 'thinking', 'redacted_thinking', 'tool_result'].map((type) => `block ${type}`),
      ...['message', 'message', 'item_reference', 'reasoning', 'function_call'].map((type) => `item ${type}`),
      ...['function_call_output', 'custom_tool_call', 'custom_tool_call_output'].map((type) => `item ${type}`),
      ...['additional_tools', 'tool_search_call', 'tool_search_output'].map((type) => `item ${type}`),
      ...['compaction', 'compaction_trigger', 'configuration_update'].map((type) => `item ${type}`),
    ]);
  });

  it.each(cases)(
    'holds: the least $kind is taken, and nothing that it requires can be left out',
    async ({ arm, send }) => {
      const least = leastOf(arm) as Json;
      const taken = await send(least);
      expect([200, 404], taken.text).toContain(taken.status); // 404: an item of another conversation
      for (const name of arm.required ?? []) {
        if (name === 'type') continue; // without it, it is of another kind
        const { [name]: _left, ...rest } = least;
        const refused = await send(rest);
        expect(refused.status, `${name}: ${refused.text}`).toBe(400);
        expect(refused.text).toContain(name);
      }
    },
  );

  it('stays open for unknown kinds in earlier turns', async () => {
    for (const list of [user.anyOf[1].items, input.anyOf[1].items]) {
      const last = (list.anyOf as readonly Json[]).at(-1);
      expect(Object.keys(last ?? {})).toEqual(['description']);
    }
    const odd = { type: 'hologram', text: 'hi' };
    const said = [
      { role: 'user', content: [odd] },
      { role: 'assistant', content: [odd] },
      { role: 'user', content: 'go on' },
    ];
    expect(await send('/v1/messages', { max_tokens: 3, messages: said })).toMatchObject({ status: 200 });
    const before = [odd, { role: 'assistant', content: [odd] }, { role: 'user', content: 'go on' }];
    expect(await send('/v1/responses', { input: before })).toMatchObject({ status: 200 });
  });
});

describe('GET /docs', () => {
  it('leads to a page that loads everything from this host', async () => {
    const redirect = await get('/docs');
    expect(redirect.status).toBe(303);
    expect(redirect.headers.get('location')).toBe('/docs/');
    const page = await get('/docs/');
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(page.text).not.toMatch(/https?:\/\//);
    const assets = [...page.text.matchAll(/(?:src|href)="(swagger[^"]+)"/g)].map(([, name]) => name);
    expect(assets).toHaveLength(2);
    for (const name of assets) {
      const asset = await get(`/docs/${name}`);
      expect(asset.status).toBe(200);
      expect(asset.text.length).toBeGreaterThan(100_000);
    }
  });

  it.each(['/docs/package.json', '/docs/../package.json', '/docs/%2e%2e%2fpackage.json'])('has no %s', async (path) => {
    expect((await get(path)).status).toBe(404);
  });
});
