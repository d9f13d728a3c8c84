import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runModels } from '../../../shared/commands/models.ts';
import { endpointAt, modelAt } from '../../contract/discovery/records.ts';
import { createTestTable, type TestTable } from '../../contract/discovery/test-table.ts';
import { createDiscovery } from '../../support/create-discovery.ts';
import { type DynamoDbServer, hasDynamoDb, startDynamoDb } from '../../support/index.ts';

describe('stator models', () => {
  it.each([
    [[], 'stator models takes: list, or forget NAME'],
    [['forget'], 'stator models takes: list, or forget NAME'],
    [['forget', '--namespace=x'], 'stator models takes: list, or forget NAME'],
    [['list', '--discovery-backend=mem'], 'discovery backend mem keeps no models: they leave with their workers'],
  ])('refuses %j', async (argv, message) => {
    await expect(runModels(argv, {})).rejects.toThrow(message);
  });

  describe.runIf(hasDynamoDb())('with a table', () => {
    let server: DynamoDbServer;
    let table: TestTable;
    beforeAll(async () => {
      server = await startDynamoDb();
      table = await createTestTable(server.url);
    });
    afterAll(async () => {
      await table.drop();
      await server.stop();
    });

    it('lists the models whose workers have left, and forgets one', async () => {
      const { tableName, endpoint } = table;
      const env = { STATOR_DISCOVERY_TABLE: tableName, STATOR_DYNAMODB_ENDPOINT: endpoint, DYN_LOG: 'error' };
      const worker = await createDiscovery({ backend: 'dynamodb', tableName, endpoint });
      await worker.put(endpointAt('ns/backend/generate/a'));
      await worker.put(modelAt('ns/backend/generate/a'));
      await worker.close();
      expect(await runModels(['list'], env)).toBe('Tiny/Model-1.0\tns.backend.generate\n');
      expect(await runModels(['forget', 'Tiny/Model-1.0'], env)).toBe('Tiny/Model-1.0 is forgotten\n');
      expect(await runModels(['list'], env)).toBe('');
      await expect(runModels(['forget', 'Tiny/Model-1.0'], env)).rejects.toThrow(
        'no model "Tiny/Model-1.0" is remembered',
      );
    });
  });
});
