import { afterAll, beforeAll, describe, vi } from 'vitest';
import type { Discovery } from '../../../shared/discovery/index.ts';
import { createDiscovery } from '../../support/create-discovery.ts';
import { type DynamoDbServer, FreezableClock, hasDynamoDb, startDynamoDb } from '../../support/index.ts';
import { describeDiscovery } from './discovery.contract.ts';
import { createTestTable } from './test-table.ts';

/** Runs the contract against a DynamoDB server, in a process with these variables: they choose the client. */
export function describeDynamoDb(env: Readonly<Record<string, string>> = {}): void {
  describe.runIf(hasDynamoDb())('against a DynamoDB server', () => {
    let server: DynamoDbServer;
    beforeAll(async () => {
      server = await startDynamoDb();
      for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
    });
    afterAll(async () => {
      vi.unstubAllEnvs();
      await server.stop();
    });

    describeDiscovery(
      'dynamodb',
      async () => {
        const table = await createTestTable(server.url);
        const opened: Discovery[] = [];
        const { tableName, endpoint } = table;
        const options = { backend: 'dynamodb', tableName, endpoint, pollMs: 50 } as const;
        return {
          async open(ttlMs = 10_000) {
            const clock = new FreezableClock();
            const problems: Error[] = [];
            const discovery = await createDiscovery({
              ...options,
              ttlMs,
              clock,
              onProblem: (problem) => problems.push(problem),
            });
            opened.push(discovery);
            return { discovery, clock, problems };
          },
          external: {
            options,
            beginOutage: async () => table.proxy.cut(),
            endOutage: async () => table.proxy.restore(),
          },
          close: async () => {
            await Promise.all(opened.map((discovery) => discovery.close()));
            await table.drop();
          },
        };
      },
      true,
    );
  });
}
