import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestTable, type TestTable } from '../contract/discovery/test-table.ts';
import { devTemplate } from '../infra/templates.ts';
import {
  type DynamoDbServer,
  freePort,
  hasDynamoDb,
  hasNatsServer,
  postJson,
  type SpawnedProcess,
  spawnNode,
  startDynamoDb,
  waitUntil,
} from '../support/index.ts';

interface Container {
  readonly Name: string;
  readonly Command: readonly string[];
  readonly Environment?: readonly { readonly Name: string; readonly Value: unknown }[];
  readonly Secrets: readonly { readonly Name: string }[];
}

/** The built program, as the image has it. */
const PROGRAM = resolve('dist/stator.js');
/** What Secrets Manager would fill in, by variable and container. One begins with a digit. */
const secretOf = (container: string, name: string): string => {
  const role = container === 'edge' ? 'router' : 'worker';
  const [, user, field] = /^NATS_(.+)_(USERNAME|PASSWORD)$/.exec(name) ?? [];
  if (user === undefined) return 'a-secret-of-the-whole-fleet-that-is-long';
  const told = user === 'AUTH' ? role : user.toLowerCase();
  return field === 'USERNAME' ? told : `0${told}-password`;
};

let folder: string;
let server: DynamoDbServer;
let table: TestTable;
let state: TestTable;
let nats: ChildProcess;
let natsPort: number;
let containers: readonly Container[];
let url: string;
const processes: SpawnedProcess[] = [];

/** Environment of a container as the template has it, where tables and addresses are those of this machine. */
function environmentOf(container: Container, here: Record<string, string>): Record<string, string> {
  const given = (container.Environment ?? []).map(({ Name, Value }) => {
    const local = Name === 'NATS_SERVER' ? `nats://127.0.0.1:${natsPort}` : Value;
    return [Name, typeof local === 'string' ? local : 'in-the-account'] as const;
  });
  const secrets = container.Secrets.map(({ Name }) => [Name, secretOf(container.Name, Name)] as const);
  return { ...Object.fromEntries([...given, ...secrets]), ...here };
}

async function startContainer(name: string, isUp: RegExp, more: Record<string, string> = {}): Promise<SpawnedProcess> {
  const container = containers.find(({ Name }) => Name === name)!;
  const env = environmentOf(container, {
    STATOR_DISCOVERY_TABLE: table.tableName,
    STATOR_DYNAMODB_ENDPOINT: table.endpoint,
    DYN_TCP_RPC_HOST: '127.0.0.1',
    DYN_TCP_RPC_PORT: '0',
    DYN_LOGGING_JSONL: 'false',
    ...more,
  });
  const child = spawnNode([PROGRAM, ...container.Command], { env });
  processes.push(child);
  await child.waitForOutput(isUp, 30_000);
  return child;
}

describe.runIf(hasNatsServer() && hasDynamoDb())('the containers of the dev task', () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'stator-dev-task-'));
    const [task] = Object.values(devTemplate().findResources('AWS::ECS::TaskDefinition'));
    containers = task?.Properties.ContainerDefinitions as Container[];
    server = await startDynamoDb();
    [table, state] = await Promise.all([createTestTable(server.url), createTestTable(server.url)]);
    const [port, monitor] = [await freePort(), await freePort()];
    natsPort = port;
    const definition = containers.find(({ Name }) => Name === 'nats')!;
    const script = definition.Command[0]!.replaceAll('/data', folder)
      .replace('port: 4222', `port: ${natsPort}`)
      .replace('127.0.0.1:8222', `127.0.0.1:${monitor}`);
    const PATH = `${dirname(process.env.STATOR_TEST_NATS_BIN ?? '')}:${process.env.PATH}`;
    const secrets = definition.Secrets.map(({ Name }) => [Name, secretOf('nats', Name)] as const);
    const env = { PATH, ...Object.fromEntries(secrets) };
    nats = spawn('/bin/sh', ['-c', script.replace('exec nats-server', `exec nats-server -l ${folder}/nats.log`)], {
      env,
    });
    const httpPort = String(await freePort());
    url = `http://127.0.0.1:${httpPort}`;
    const ready = /worker is ready/;
    await Promise.all([
      startContainer('edge', /serving/, {
        STATOR_ROLES: 'http,router', // asked here directly: the function has suites of its own
        STATOR_AUTH: 'off',
        STATOR_STATE_TABLE: state.tableName,
        STATOR_SNAPSHOT_INTERVAL_SECS: '1',
        DYN_HTTP_PORT: httpPort,
      }),
      startContainer('worker-0', ready, { DYN_SYSTEM_PORT: '0' }),
      startContainer('worker-1', ready, { DYN_SYSTEM_PORT: '0' }),
    ]);
  }, 60_000);
  afterAll(async () => {
    await Promise.all(processes.map((child) => child.kill()));
    nats?.kill('SIGKILL');
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('serve the model, and route by what the workers say over NATS, within the rights of their users', async () => {
    const content = 'parts meet where their edges fit; '.repeat(60);
    const ask = async (): Promise<number> => {
      const body = { model: 'stator-mini', max_tokens: 4, messages: [{ role: 'user', content }] };
      const response = await postJson(`${url}/v1/chat/completions`, body);
      const answer = (await response.json()) as { usage?: { prompt_tokens_details?: { cached_tokens?: number } } };
      return response.status === 200 ? (answer.usage?.prompt_tokens_details?.cached_tokens ?? 0) : -1;
    };
    await waitUntil(async () => (await ask()) > 0, { timeoutMs: 20_000, pollMs: 200 });
    const log = readFileSync(join(folder, 'nats.log'), 'utf8');
    expect(log).toMatch(/Server is ready/);
    expect(log).not.toMatch(/Permissions Violation|Authorization/i);
  });
});
