import { afterAll, beforeAll, describe, it, vi } from 'vitest';
import { createDiscovery } from '../../support/create-discovery.ts';
import { type DynamoDbServer, FreezableClock, hasDynamoDb, startDynamoDb, waitUntil } from '../../support/index.ts';
import { describeDiscovery } from './discovery.contract.ts';
import { openedHandles } from './opened-handles.ts';
import { endpointAt, Witness } from './records.ts';
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
        const { tableName, endpoint } = table;
        const options = { backend: 'dynamodb', tableName, endpoint, pollMs: 50 } as const;
        const handles = openedHandles((each) => createDiscovery({ ...options, ...each }));
        return {
          open: handles.open,
          external: {
            options,
            beginOutage: async () => table.proxy.cut(),
            endOutage: async () => table.proxy.restore(),
          },
          close: async () => {
            await handles.closeAll();
            await table.drop();
          },
        };
      },
      true,
    );

    it('looks a worker up that has left or moved, in a process that reads nothing by itself meanwhile', async () => {
      const { tableName, endpoint, drop } = await createTestTable(server.url);
      const clock = new FreezableClock();
      const options = { backend: 'dynamodb', tableName, endpoint, pollMs: 50 } as const;
      const edge = await createDiscovery({ ...options, clock });
      const workers = [await createDiscovery(options), await createDiscovery(options)] as const;
      const [leaving, moving] = [endpointAt('ns/backend/generate/a'), endpointAt('ns/backend/generate/b')];
      await workers[0].put(leaving);
      await workers[1].put(moving);
      const witness = new Witness();
      await edge.watch({ bucket: 'v1/instances', prefix: '' }, witness);
      clock.freeze();
      await workers[0].close();
      edge.recheck?.('a');
      await waitUntil(() => !witness.present.has('ns/backend/generate/a'));
      clock.thaw(); // one a second
      const moved = endpointAt('ns/backend/generate/b', '127.0.0.1:4001');
      await workers[1].put(moved);
      edge.recheck?.('b');
      await waitUntil(() => JSON.stringify([...witness.present.values()]) === JSON.stringify([moved]));
      await Promise.all([edge.close(), workers[1].close()]);
      await drop();
    });
  });
}
