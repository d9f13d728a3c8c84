import { type ClientHttp2Session, connect } from 'node:http2';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { issueKey, KeyGate } from '../../../../shared/access/index.ts';
import type { RefusalReason } from '../../../../shared/access/keys/key-gate.ts';
import type { NewKey } from '../../../../shared/access/keys/key-store.ts';
import { systemClock } from '../../../../shared/clock/index.ts';
import { encodeMessage, framed, STATUS } from '../../../../shared/grpc/index.ts';
import { ModelInferRequestSchema } from '../../../../shared/grpc/messages/generated/grpc_service_pb.js';
import type { IncomingCall } from '../../../../shared/planes/index.ts';
import { waitUntil } from '../../../support/index.ts';
import { type ScriptedKserve, startScriptedKserve } from '../../../support/kserve/scripted-server.ts';
import { MemoryKeyStore } from '../../../support/memory-key-store.ts';

const SERVICE = '/inference.GRPCInferenceService';
const PROMPT = framed(
  encodeMessage(ModelInferRequestSchema, {
    modelName: 'letters',
    id: 'r',
    parameters: { max_tokens: { parameterChoice: { case: 'int64Param', value: 2n } } },
    inputs: [{ name: 'text_input', datatype: 'BYTES', shape: [1n], contents: { bytesContents: [Buffer.from('abc')] } }],
  }),
);
const [PERMISSION_DENIED, UNAUTHENTICATED] = [7, 16];
const EMPTY = framed(Buffer.alloc(0));

/** The gate that HTTP has, before KServe's methods. */
describe('KServe behind API keys', () => {
  const store = new MemoryKeyStore();
  const calls: IncomingCall[] = [];
  const refused: RefusalReason[] = [];
  const spent: [owner: string, tokens: number][] = [];
  let doesAnswer = true;
  let models: ScriptedKserve;
  let client: ClientHttp2Session;

  beforeEach(async () => {
    calls.length = refused.length = spent.length = 0;
    doesAnswer = true;
    const gate = new KeyGate({
      store,
      clock: systemClock,
      freshMs: 300_000,
      onRefused: (reason) => refused.push(reason),
      onSpent: (owner, tokens) => spent.push([owner, tokens]),
    });
    models = await startScriptedKserve({
      gate,
      letters: (call) => {
        calls.push(call);
        if (!doesAnswer) return;
        call.tokens(0, [3, 4], 0, 2);
        call.output({ finish_reason: 'length' });
        call.end();
      },
    });
    client = connect(`http://127.0.0.1:${models.server.port}`);
  });
  afterEach(async () => {
    client.destroy();
    await models.close();
  });

  const issue = async (wanted: Partial<NewKey>): Promise<string> =>
    (await issueKey(store, systemClock, { name: 'k', scopes: ['inference'], limits: {}, ...wanted })).text;

  function open(rpc: string, headers: Readonly<Record<string, string>>, message: Buffer) {
    const call = client.request({
      ':method': 'POST',
      ':path': `${SERVICE}/${rpc}`,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    call.resume();
    call.end(message);
    const status = new Promise<number>((resolve, reject) => {
      for (const event of ['response', 'trailers'] as const)
        call.on(event, (given) => given['grpc-status'] !== undefined && resolve(Number(given['grpc-status'])));
      call.on('error', reject);
    });
    return { call, status };
  }
  const infer = (key: string): Promise<number> => open('ModelInfer', { authorization: `Bearer ${key}` }, PROMPT).status;

  it('takes a key as authorization or x-api-key, and says to the worker whose request it is', async () => {
    const key = await issue({ owner: 'ada' });
    for (const shown of [{ authorization: `Bearer ${key}` }, { 'x-api-key': key }])
      expect(await open('ModelInfer', shown, PROMPT).status).toBe(STATUS.OK);
    expect(calls.map(({ headers }) => Object.entries(headers).filter(([name]) => name.endsWith('owner')))).toEqual(
      Array.from({ length: 2 }, () => [[expect.any(String), 'ada']]),
    );
    await waitUntil(() => spent.length === 2, { timeoutMs: 5000, what: 'the charges of both requests' });
    for (const [owner, tokens] of spent) expect([owner, tokens]).toEqual(['ada', expect.any(Number)]);
    expect(Math.min(...spent.map(([, tokens]) => tokens))).toBeGreaterThan(2); // prompt and answer
  });

  it('lets no client in without a key, with a wrong key or with an expired one', async () => {
    const key = await issue({});
    expect(await open('ModelInfer', {}, PROMPT).status).toBe(UNAUTHENTICATED);
    expect(await infer(`${key.slice(0, -1)}${key.endsWith('a') ? 'b' : 'a'}`)).toBe(UNAUTHENTICATED);
    expect(await infer(await issue({ lifeMs: -1 }))).toBe(UNAUTHENTICATED);
    expect(refused).toEqual(['no_key', 'invalid', 'expired']);
    expect(calls).toEqual([]);
  });

  it('keeps a key to its scopes, its models and its methods', async () => {
    const denied = async (wanted: Partial<NewKey>): Promise<number> => infer(await issue(wanted));
    expect(await denied({ scopes: ['admin'] })).toBe(PERMISSION_DENIED);
    expect(await denied({ models: ['text'] })).toBe(PERMISSION_DENIED);
    expect(await denied({ routes: ['/v1/*'] })).toBe(PERMISSION_DENIED);
    expect(calls).toEqual([]);
    expect(await denied({ models: ['letters'], routes: [`${SERVICE}/*`] })).toBe(STATUS.OK);
    const other = { 'x-api-key': await issue({ routes: [`${SERVICE}/ModelInfer`] }) };
    expect(await open('RepositoryIndex', other, EMPTY).status).toBe(PERMISSION_DENIED);
  });

  it('holds a key to its budget, which only what generates takes from', async () => {
    const key = await issue({ limits: { requestsPerMinute: 1 } });
    expect(await infer(key)).toBe(STATUS.OK);
    expect(await infer(key)).toBe(STATUS.RESOURCE_EXHAUSTED);
    expect(refused).toEqual(['rate']);
    expect(await open('RepositoryIndex', { 'x-api-key': key }, EMPTY).status).toBe(STATUS.OK);
  });

  it('lets an owner alone cancel what it runs', async () => {
    doesAnswer = false;
    const asked = open('ModelInfer', { 'x-api-key': await issue({ owner: 'ada' }) }, PROMPT);
    const call = await waitUntil(() => calls[0], { timeoutMs: 5000, what: 'the call' });
    expect(models.lifecycle.running.cancel(call.id, 'bob')).toBe(false);
    expect(call.stopped.aborted).toBe(false);
    expect(models.lifecycle.running.cancel(call.id, 'ada')).toBe(true);
    expect(await asked.status).toBe(STATUS.CANCELLED);
    await waitUntil(() => call.stopped.aborted, { timeoutMs: 5000, what: 'the worker to hear of it' });
  });
});
