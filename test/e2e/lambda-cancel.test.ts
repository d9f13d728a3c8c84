import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { issueKey } from '../../shared/access/index.ts';
import { DynamoDbKeyStore } from '../../shared/access/keys/dynamodb-key-store.ts';
import { systemClock } from '../../shared/clock/index.ts';
import { createTable, postJson, sseData, waitUntil } from '../support/index.ts';
import { FunctionBed, hasFunctionBed, MODEL } from '../support/lambda/function-bed.ts';
import type { LambdaRuntime } from '../support/lambda-runtime.ts';

const SHARED = { STATOR_ID_SECRET: 'a-secret-that-all-instances-are-given' };

let bed: FunctionBed;
let runtime: LambdaRuntime;
let bearer: Readonly<Record<string, string>>;
let stranger: Readonly<Record<string, string>>;

/** Headers of a client of its own. */
async function makeKey(tableName: string): Promise<{ readonly authorization: string }> {
  const store = await DynamoDbKeyStore.open({ tableName, endpoint: bed.server.url });
  const { text } = await issueKey(store, systemClock, { name: 'client', scopes: ['inference'], limits: {} });
  store.close();
  return { authorization: `Bearer ${text}` };
}

describe.runIf(hasFunctionBed())('a stream of the deployed HTTP function', () => {
  beforeAll(async () => {
    bed = await FunctionBed.open();
    const keysTable = `${bed.table.tableName}-keys`;
    await createTable({ tableName: keysTable, endpoint: bed.server.url });
    [bearer, stranger] = [await makeKey(keysTable), await makeKey(keysTable)];
    const keys = { STATOR_AUTH: 'on', STATOR_KEYS_TABLE: keysTable };
    const env = { ...keys, DYN_REQUEST_PLANE: 'tcp', DYN_ROUTER_MODE: 'round-robin', ...SHARED };
    runtime = await bed.startFunction(env, 2);
    await bed.startWorker();
  });

  afterAll(async () => {
    await runtime.stop();
    await bed.close();
  });

  it('is cancelled through another instance, since its own serves nothing beside it', async () => {
    const isServed = async (): Promise<boolean> =>
      (await fetch(`${runtime.url}/v1/models/${MODEL}`, { headers: bearer })).ok;
    await waitUntil(isServed, { what: 'the model' });
    await runtime.idle();
    const body = { model: MODEL, max_tokens: 3500, ignore_eos: true, stream: true };
    const chat = { ...body, messages: [{ role: 'user', content: 'What are you?' }] };
    expect((await postJson(`${runtime.url}/v1/chat/completions`, chat)).status).toBe(401);
    await runtime.idle();
    const response = await postJson(`${runtime.url}/v1/chat/completions`, chat, { headers: bearer });
    const data = sseData(response);
    const { value } = await data.next();
    const { id } = JSON.parse(String(value)) as { readonly id: string };
    /** The second of two instances may still be at its last request. */
    const cancel = async (headers: Readonly<Record<string, string>>): Promise<Response> => {
      let response: Response | undefined;
      await waitUntil(
        async () => {
          response = await postJson(`${runtime.url}/v1/cancel/${id}`, {}, { headers });
          return response.status !== 429;
        },
        { what: 'an instance that is free' },
      );
      return response!;
    };
    expect((await cancel(stranger)).status).toBe(404);
    const cancelled = await cancel(bearer);
    expect([cancelled.status, await cancelled.json()]).toMatchObject([200, { cancelled: true }]);
    const rest: string[] = [];
    for await (const text of data) rest.push(text);
    expect(rest.at(-1)).toBe('[DONE]');
    expect(JSON.parse(rest.at(-2) ?? '')).toMatchObject({ error: { code: 'client_closed_request' } });
    expect(runtime.stats).toMatchObject({ coldStarts: 2, crashes: 0 });
  });
});
