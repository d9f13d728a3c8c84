import { afterAll, beforeAll, describe } from 'vitest';
import { createDiscovery, createDiscoveryTable, type Discovery } from '../../../shared/discovery/index.ts';
import { type DynamoDbServer, FreezableClock, hasDynamoDb, startDynamoDb, startTcpProxy } from '../../support/index.ts';
import { describeDiscovery } from './discovery.contract.ts';

describe.runIf(hasDynamoDb())('against a DynamoDB server', () => {
  let server: DynamoDbServer;
  beforeAll(async () => {
    server = await startDynamoDb();
  });
  afterAll(() => server.stop());

  describeDiscovery(
    'dynamodb',
    async () => {
      const { hostname, port } = new URL(server.url);
      const proxy = await startTcpProxy({ host: hostname, port: Number(port) });
      const endpoint = `http://127.0.0.1:${proxy.port}`;
      const tableName = `discovery-${process.pid}-${Date.now()}-${proxy.port}`;
      await createDiscoveryTable({ endpoint, tableName });
      const opened: Discovery[] = [];
      return {
        async open() {
          const clock = new FreezableClock();
          const options = { tableName, endpoint, clock, ttlMs: 500, pollMs: 50, requestTimeoutMs: 1000 };
          const discovery = await createDiscovery({ backend: 'dynamodb', ...options, onProblem: () => {} });
          opened.push(discovery);
          return { discovery, clock };
        },
        outage: {
          begin: async () => proxy.cut(),
          end: async () => proxy.restore(),
        },
        close: async () => {
          await Promise.all(opened.map((discovery) => discovery.close()));
          await proxy.close();
        },
      };
    },
    true,
  );
});
