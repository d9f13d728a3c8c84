import { DeleteTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { createTable, startTcpProxy, type TcpProxy } from '../../support/index.ts';

/** A discovery table of its own for one test, behind a relay that can fail. */
export interface TestTable {
  readonly tableName: string;
  /** Through the relay. */
  readonly endpoint: string;
  readonly proxy: TcpProxy;
  drop(): Promise<void>;
}

let tableCount = 0;

/** Makes an empty table at `serverUrl` (plain HTTP: the relay passes bytes on and cannot answer for a TLS name). */
export async function createTestTable(serverUrl: string): Promise<TestTable> {
  const { hostname, port } = new URL(serverUrl);
  const proxy = await startTcpProxy({ host: hostname, port: Number(port || 80) });
  const endpoint = `http://127.0.0.1:${proxy.port}`;
  const tableName = `discovery-${process.pid}-${Date.now()}-${tableCount++}`;
  await createTable({ endpoint, tableName });
  return {
    tableName,
    endpoint,
    proxy,
    async drop() {
      const client = new DynamoDBClient({ endpoint: serverUrl });
      await client.send(new DeleteTableCommand({ TableName: tableName }));
      client.destroy();
      await proxy.close();
    },
  };
}
