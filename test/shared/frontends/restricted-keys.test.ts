import { afterEach, describe, expect, it } from 'vitest';
import { issueKey, KeyGate } from '../../../shared/access/index.ts';
import { systemClock } from '../../../shared/clock/index.ts';
import type { JsonObject } from '../../support/dynamo-http/records.ts';
import { createTestApp } from '../../support/http-app.ts';
import { waitUntil } from '../../support/index.ts';
import { KserveClient } from '../../support/kserve/kserve-client.ts';
import { startScriptedKserve } from '../../support/kserve/scripted-server.ts';
import { MemoryKeyStore } from '../../support/memory-key-store.ts';
import { playTexts, ScriptedPipeline, servedModel } from '../../support/scripted-pipeline.ts';
import { CREATE, closeServers, openServer, SocketClient } from './node/socket-bed.ts';

afterEach(closeServers);

const OPEN = 'open-model';
const SECRET = 'secret-model';
const HIDDEN = /secret-/; // the API itself speaks of secrets

function newPipeline(): ScriptedPipeline {
  const adapter = { ...servedModel('open-adapter'), baseModel: SECRET };
  const models = [servedModel(SECRET), servedModel(OPEN), adapter];
  return new ScriptedPipeline(models).onGenerate(({ sink }) => playTexts(sink, ['hello']));
}

async function newGate() {
  const store = new MemoryKeyStore();
  const gate = new KeyGate({ store, clock: systemClock, freshMs: 60_000 });
  const issue = async (models?: readonly string[]) =>
    (await issueKey(store, systemClock, { name: 'k', scopes: ['inference'], limits: {}, models })).text;
  return { gate, issue, restricted: await issue([OPEN, 'open-adapter']), free: await issue() };
}

const chat = { messages: [{ role: 'user', content: 'hi' }] };
type Asked = readonly [path: string, body?: object | undefined, headers?: Readonly<Record<string, string>>];

/** Each dialect's way to ask for a model that is not there. */
const ASKS: readonly Asked[] = [
  ['/v1/models'],
  ['/v1/models', undefined, { 'anthropic-version': '2023-06-01' }],
  ['/v1/models/absent'],
  ['/v1/models/absent', undefined, { 'anthropic-version': '2023-06-01' }],
  ['/v1/models/absent/ready'],
  ['/v1/models/open-adapter'],
  ['/v1/chat/completions', chat],
  ['/v1/completions', { prompt: 'hi' }],
  ['/v1/responses', { input: 'hi' }],
  ['/v1/responses/input_tokens', { input: 'hi' }],
  ['/v1/responses/compact', { input: 'hi' }],
  ['/v1/embeddings', { input: 'hi' }],
  ['/v1/images/generations', { prompt: 'hi' }],
  ['/v1/videos', { prompt: 'hi' }],
  ['/v1/messages', { ...chat, max_tokens: 4 }],
  ['/v1/messages/count_tokens', chat],
  ['/tokenize', { prompt: 'hi' }],
  ['/detokenize', { tokens: [1] }],
  ['/health?ready=absent'],
  ['/health'],
  ['/openapi.json'],
];

describe('names of models that a key may not use', () => {
  async function ask(key: string | undefined, model: string, [path, body, headers]: Asked) {
    const { gate, restricted, free } = await newGate();
    const settings = { anthropic: { isEnabled: true, stripsPreamble: true } };
    const { app } = createTestApp({ pipeline: newPipeline(), gate, settings });
    const shown = key === 'restricted' ? restricted : free;
    const request = new Request(`http://localhost${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        'content-type': 'application/json',
        ...(key === undefined ? {} : { authorization: `Bearer ${shown}` }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify({ model, ...body }) }),
    });
    const response = await app.fetch(request, { peer: '203.0.113.7' });
    return { status: response.status, text: await response.text() };
  }

  it.each(ASKS)(
    'are hidden at %s %j %j from a key that is restricted, and from a client without a key',
    async (...asked: unknown[]) => {
      for (const key of ['restricted', undefined]) {
        const { text } = await ask(key, OPEN.replace('open', 'opne'), asked as never);
        expect(text).not.toMatch(HIDDEN);
      }
    },
  );

  it.each(ASKS.filter(([, body]) => body !== undefined))(
    'are as good as none at %s %j',
    async (...asked: unknown[]) => {
      const [hidden, none] = [
        await ask('restricted', SECRET, asked as never),
        await ask('restricted', 'xxxxxx-model', asked as never),
      ];
      expect(hidden.status).toBe(none.status);
    },
  );

  it.each([
    ['/v1/models/absent'],
    ['/v1/chat/completions', chat],
    ['/v1/completions', { prompt: 'hi' }],
    ['/v1/responses', { input: 'hi' }],
    ['/v1/messages', { ...chat, max_tokens: 4 }],
  ] as const)('are shown at %s to a key that may use them, with the one that was asked for', async (...asked) => {
    const { status, text } = await ask('free', 'absent', asked);
    expect([status, text]).toEqual([404, expect.stringMatching(/absent.*(secret-model.*open-model)/s)]);
  });

  it('are not told over WebSocket, and those that it may use are', async () => {
    const { gate, restricted, free } = await newGate();
    const { server } = await openServer({ gate, pipeline: newPipeline() });
    const told = async (key: string, model: string): Promise<JsonObject> => {
      const headers = { authorization: `Bearer ${key}` };
      const client = await new SocketClient(server.port, { headers }).opened();
      const { error } = await client.ask({ ...CREATE, model });
      return error as JsonObject;
    };
    expect(JSON.stringify(await told(free, 'absent'))).toMatch(/absent.*secret-model.*open-model/);
    expect(await told(restricted, 'absent')).toEqual(
      JSON.parse(JSON.stringify(await told(restricted, SECRET)).replaceAll(SECRET, 'absent')),
    );
  });
});

describe('names of models that a key may not use, by gRPC', () => {
  it('are shown by no method, and those that it may use are', async () => {
    const { gate, issue, free } = await newGate();
    const kserve = await startScriptedKserve({ gate });
    const client = new KserveClient(`127.0.0.1:${kserve.server.port}`);
    try {
      const methods = (model: string): readonly (readonly [string, object])[] => [
        ['ModelMetadata', { name: model }],
        ['ModelConfig', { name: model }],
        ['ModelStatistics', { name: model }],
        ['ModelStatistics', {}],
        ['ModelReady', { name: model }],
        ['RepositoryIndex', {}],
        ['ModelInfer', { model_name: model }],
        ['ModelStreamInfer', { model_name: model }],
      ];
      const key = await issue(['text']);
      for (const [method, message] of methods('nobody')) {
        const told = JSON.stringify(await client.ask(method, [message], [['x-api-key', key]]));
        expect(`${method} ${told}`).not.toMatch(/batched|plain|letters|echo/);
      }
      for (const [at, [method, message]] of methods('batched').entries()) {
        const told = await client.ask(method, [message], [['x-api-key', key]]);
        const none = await client.ask(method, [methods('nobody')[at]![1]], [['x-api-key', key]]);
        expect({ method, told: JSON.stringify(told).replaceAll('batched', 'nobody') }).toEqual({
          method,
          told: JSON.stringify(none),
        });
      }
      const asFree = [['x-api-key', free]] as const;
      await waitUntil(async () =>
        /nobody.*(batched|text)/.test(
          (await client.ask('ModelInfer', [{ model_name: 'nobody' }], asFree)).message ?? '',
        ),
      );
    } finally {
      client.close();
      await kserve.close();
    }
  });
});
