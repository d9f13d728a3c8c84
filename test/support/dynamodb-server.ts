import { freePort } from './free-port.ts';
import { type SpawnedProcess, spawnProgram } from './spawn-node.ts';
import { waitUntil } from './wait-until.ts';

/** A DynamoDB endpoint for one suite. */
export interface DynamoDbServer {
  readonly url: string;
  /** Ends the server if this suite started it. Idempotent. */
  stop(): Promise<void>;
}

/** Whether a suite can have a DynamoDB: an endpoint in `STATOR_TEST_DYNAMODB`, or a built dynoxide. */
export function hasDynamoDb(): boolean {
  return Boolean(process.env.STATOR_TEST_DYNAMODB || process.env.STATOR_TEST_DYNOXIDE_BIN);
}

/**
 * Returns the endpoint of `STATOR_TEST_DYNAMODB`, or starts a dynoxide. Sets local credentials if the process has none.
 */
export async function startDynamoDb(): Promise<DynamoDbServer> {
  setLocalCredentials();
  const url = process.env.STATOR_TEST_DYNAMODB;
  return url ? { url, stop: async () => {} } : startDynoxide();
}

export interface DynoxideOptions {
  /**
   * @default a free port
   */
  readonly port?: number;
  /** SQLite file, so that the data outlives the process. @default in memory */
  readonly databasePath?: string;
}

/** Starts dynoxide on 127.0.0.1 and waits until it answers. */
export async function startDynoxide(options: DynoxideOptions = {}): Promise<DynamoDbServer> {
  const binary = process.env.STATOR_TEST_DYNOXIDE_BIN;
  if (!binary) throw new Error('STATOR_TEST_DYNOXIDE_BIN is not set: run through vitest, whose set-up builds dynoxide');
  setLocalCredentials();
  const port = options.port ?? (await freePort());
  const database = options.databasePath === undefined ? [] : ['--db-path', options.databasePath];
  const server = spawnProgram(binary, ['serve', '--port', String(port), '--log', 'quiet', ...database]);
  const url = `http://127.0.0.1:${port}`;
  await waitUntil(() => answers(url, server), { what: `dynoxide on ${url}` });
  return { url, stop: () => server.kill() };
}

async function answers(url: string, server: SpawnedProcess): Promise<boolean> {
  const response = await fetch(url, { signal: AbortSignal.timeout(1000) }).catch((error: Error) => {
    throw new Error(`${error.message} ${server.stderr()}`, { cause: error });
  });
  await response.arrayBuffer(); // frees the connection
  return true; // any status shows that it listens and speaks HTTP
}

function setLocalCredentials(): void {
  process.env.AWS_REGION ??= 'us-east-1';
  if (process.env.AWS_PROFILE || process.env.AWS_ACCESS_KEY_ID) return;
  process.env.AWS_ACCESS_KEY_ID = 'local';
  process.env.AWS_SECRET_ACCESS_KEY = 'local';
}
