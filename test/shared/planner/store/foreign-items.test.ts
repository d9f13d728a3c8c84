import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { DynamoDbPlannerStore } from '../../../../shared/planner/index.ts';

const NEVER = new AbortController().signal;
/** An item that has a text without meaning in each attribute that the store reads. */
const FOREIGN = { pk: 'p', sk: 's', state: '{', entry: '{', pools: '{', memory: '{', holder: 'h' };

describe('a planner table with items of another program', () => {
  let server: Server;
  let store: DynamoDbPlannerStore;
  beforeAll(async () => {
    for (const name of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']) vi.stubEnv(name, 'local');
    vi.stubEnv('AWS_REGION', 'us-east-1');
    const item = Object.fromEntries(Object.entries(FOREIGN).map(([name, text]) => [name, { S: text }]));
    const answer = JSON.stringify({ Item: item, Items: [item], Attributes: item });
    server = createServer((request, response) => {
      request.resume();
      response.writeHead(200, { 'content-type': 'application/x-amz-json-1.0' }).end(answer);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    store = await DynamoDbPlannerStore.open({ tableName: 't', endpoint: `http://127.0.0.1:${port}` });
  });
  afterAll(async () => {
    await store.close();
    server.close();
    vi.unstubAllEnvs();
  });

  it.each([
    ['decision', () => store.decision('g', 1, NEVER)],
    ['decisions', () => store.decisions('g', { sinceMs: 0 }, NEVER)],
    ['ticks', () => store.ticks('g', { sinceMs: 0 }, NEVER)],
    ['reservations', () => store.reservations(NEVER)],
    ['lease', () => store.takeLease('g', 'h', 1000, NEVER)],
  ])('says so when it reads its %s', async (_, read) => {
    const problem = {
      name: 'PlannerStoreError',
      code: 'misconfigured',
      message: expect.stringMatching(/did not write/),
    };
    await expect(read()).rejects.toMatchObject(problem);
  });
});
