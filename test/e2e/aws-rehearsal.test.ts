import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import {
  type AttributeDefinition,
  CreateTableCommand,
  DynamoDBClient,
  type KeySchemaElement,
} from '@aws-sdk/client-dynamodb';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Account,
  type DeployedFunction,
  type DeployedStack,
  hasMoto,
  openAccount,
  packedBytes,
  unpack,
} from '../support/aws/deployment.ts';
import { type IamProxy, startIamProxy } from '../support/aws/iam-proxy.ts';
import { SECRET_ARN_PREFIX } from '../support/aws/localize.ts';
import { unusedGrants } from '../support/aws/policy.ts';
import {
  type DynamoDbServer,
  freePort,
  hasDynamoDb,
  hasNatsServer,
  type NatsServer,
  runStator,
  type StatorProcess,
  startDynamoDb,
  startNatsServer,
  useFleet,
  waitUntil,
} from '../support/index.ts';
import { hasLambdaRuntime, type LambdaRuntime, startLambdaRuntime } from '../support/lambda-runtime.ts';

const MODEL = 'rehearsed';
/** A path that each process understands in its own way: the function has no model there, and fetches it from its worker. */
const ELSEWHERE = '/proc/self/cwd/builtin-model';
const CONTEXT = { nats: 'true', natGateways: '1', routerImage: 'stator' };
/** A machine shared with other tests is slower than one that serves. */
const PATIENT = { STATOR_ROUTER_CHOOSE_TIMEOUT_MS: '500', STATOR_ROUTER_CONNECT_TIMEOUT_MS: '2000' };
/** Deaths are noticed sooner than in a fleet that is not watched. */
const TIMES = { STATOR_LEASE_TTL_SECS: '2' };
const LOOPBACK = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1', DYN_SYSTEM_HOST: '127.0.0.1' };
const MB = 1_000_000;

/** A role may read the plane token. */
const TOKEN_ARN = `${SECRET_ARN_PREFIX}PlaneToken`;
const READS_TOKEN = { Effect: 'Allow', Action: 'secretsmanager:GetSecretValue', Resource: TOKEN_ARN } as const;

/**
 * Rights that a rehearsal of some minutes does not use.
 *
 * | Right | Used when |
 * |---|---|
 * | `Query` of the discovery table, by functions | the fleet view is older than 3 s |
 * | `Query` of the responses | an answer is larger than one item holds |
 * | `DeleteItem` of router state | a router starts with `--router-reset-states` |
 */
const RARELY_USED = [/^dynamodb:Query .*(Discovery|Responses)/, /^dynamodb:DeleteItem .*RouterState/];

type Env = Readonly<Record<string, string>>;

const fleet = useFleet();
let folder: string;
let account: Account;
let stack: DeployedStack;
let server: DynamoDbServer;
let proxy: IamProxy;
let nats: NatsServer;
let runtime: LambdaRuntime;
let apiKey: string;
let routerPort: number;
const routers: StatorProcess[] = [];
const workers: StatorProcess[] = [];
/** Of Secrets Manager, which moto's CloudFormation does not fill: a text for each address that somebody refers to. */
const secretOf = (arn: string): string => `secret-${Buffer.from(arn).toString('hex').slice(-48)}`;

function output(name: string): string {
  const value = stack.outputs[name];
  if (value === undefined) throw new Error(`the stack has no output ${name}`);
  return value;
}

function theFunction(): DeployedFunction {
  const [only, ...others] = Object.values(stack.functions);
  if (only === undefined || others.length > 0) throw new Error('the stack is to have one function');
  return only;
}

/** What a process of the deployment gets, at the addresses that its network has here. */
function here(principal: string, env: Env): Env {
  const resolved = Object.entries(env).map(([name, value]) => {
    const local = value
      .replace(/\{\{resolve:secretsmanager:(.*):SecretString:.*\}\}/, (_all, arn: string) => secretOf(arn))
      .replace(/^nats:\/\/[\w.-]+\.internal:4222$/, nats.url)
      .replace(/^tcp:\/\/router\.[\w.-]+\.internal:\d+$/, `tcp://127.0.0.1:${routerPort}`);
    return [name, local] as const;
  });
  const credentials = { AWS_ACCESS_KEY_ID: principal, AWS_SECRET_ACCESS_KEY: principal, AWS_REGION: 'us-east-1' };
  const endpoints = { STATOR_DYNAMODB_ENDPOINT: proxy.url, AWS_ENDPOINT_URL_SECRETS_MANAGER: proxy.url };
  return { ...Object.fromEntries(resolved), ...credentials, ...endpoints };
}

/** A worker that is given the outputs of the stack and nothing else of it. */
async function startWorker(more: Env = {}): Promise<StatorProcess> {
  const env = here('worker', {
    DYN_DISCOVERY_BACKEND: 'dynamodb',
    STATOR_DISCOVERY_TABLE: output('DiscoveryTableName'),
    DYN_EVENT_PLANE: output('EventPlane'),
    NATS_SERVER: output('NatsServer'),
    NATS_AUTH_TOKEN: secretOf(output('NatsTokenSecretArn')),
  });
  const flags = [`--model-path=${ELSEWHERE}`, `--model-name=${MODEL}`, '--block-size=16', '--decode-speedup-ratio=0.5'];
  const worker = await fleet.worker(flags, { ...env, ...TIMES, ...LOOPBACK, ...more }, { cwd: resolve('dist') });
  workers.push(worker);
  return worker;
}

/** A container of the router's task, as its definition has it. */
async function startRouter(planePort: number): Promise<StatorProcess> {
  const task = Object.values(stack.tasks).find(({ containers }) => containers.some(({ name }) => name === 'router'));
  const container = task?.containers.find(({ name }) => name === 'router');
  const secrets = Object.entries(container?.secrets ?? {}).map(([name, arn]) => [name, secretOf(arn)] as const);
  const env = here('router', { ...container?.environment, ...Object.fromEntries(secrets) });
  const own = {
    DYN_HTTP_PORT: '0',
    DYN_TCP_RPC_PORT: String(planePort),
    STATOR_SNAPSHOT_INTERVAL_SECS: '1',
    DYN_LOGGING_JSONL: 'false',
  };
  const router = await fleet.frontend([], { ...env, ...TIMES, ...LOOPBACK, ...own });
  routers.push(router);
  return router;
}

async function startFunction(more: Env = {}): Promise<LambdaRuntime> {
  const deployed = theFunction();
  const directory = mkdtempSync(join(folder, 'code-'));
  expect(await unpack(deployed, directory)).toContain('index.mjs');
  const env = { ...here('function', deployed.environment), ...PATIENT, ...more };
  return startLambdaRuntime({
    directory,
    handler: deployed.handler,
    timeoutMs: deployed.timeoutSecs * 1000,
    env: { ...env, STATOR_ARTIFACTS_CACHE_DIR: join(directory, 'tmp') }, // a function has /tmp of its own
    environmentsMax: 4,
    stage: '/prod',
  });
}

const openAi = (of = runtime): OpenAI => new OpenAI({ baseURL: `${of.url}/v1`, apiKey, maxRetries: 0 });

/** Content of a streamed chat of that many tokens. */
async function streamChat(client: OpenAI, tokens: number, onChunk: (count: number) => void = () => {}) {
  const messages = [{ role: 'user' as const, content: 'What are you?' }];
  const stream = await client.chat.completions.create({
    model: MODEL,
    max_tokens: tokens,
    messages,
    stream: true,
    stream_options: { include_usage: true },
    ...{ ignore_eos: true },
  });
  let count = 0;
  let usage = 0;
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta.content) onChunk(++count);
    usage = chunk.usage?.completion_tokens ?? usage;
  }
  return usage;
}

async function untilServed(isServed: boolean, of = runtime): Promise<void> {
  const list = async (): Promise<boolean> => (await openAi(of).models.list()).data.length > 0 === isServed;
  await waitUntil(list, { what: isServed ? 'the model' : 'no model', timeoutMs: 20_000, pollMs: 100 });
  await of.idle();
}

const isRun = hasMoto() && hasLambdaRuntime() && hasDynamoDb() && hasNatsServer();

describe.runIf(isRun)('a deployment, rehearsed', { timeout: 120_000 }, () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'stator-rehearsal-'));
    account = await openAccount('Rehearsal');
    stack = await account.deploy(CONTEXT);
    server = await startDynamoDb();
    const client = new DynamoDBClient({ endpoint: server.url });
    for (const [TableName, { keys, attributes }] of Object.entries(stack.tables)) {
      const KeySchema = keys as KeySchemaElement[];
      const AttributeDefinitions = attributes as AttributeDefinition[];
      await client.send(
        new CreateTableCommand({ TableName, KeySchema, AttributeDefinitions, BillingMode: 'PAY_PER_REQUEST' }),
      );
    }
    client.destroy();
    const token = secretOf(output('NatsTokenSecretArn'));
    nats = await startNatsServer({
      configuration: `authorization { token: "${token}" }`,
      storeBytesMax: 16 * 2 ** 30, // as much as the event log may have
    });
    routerPort = await freePort();
    const task = Object.values(stack.tasks).find(({ containers }) => containers.some(({ name }) => name === 'router'));
    proxy = await startIamProxy({
      target: server.url,
      secretOf,
      arnOf: (name) => stack.tables[name]?.arn ?? `no-table/${name}`,
      principals: {
        function: theFunction().statements,
        router: task?.statements ?? [],
        'secret-reader': [...theFunction().statements, READS_TOKEN],
        worker: stack.policies[output('WorkerPolicyArn')] ?? [],
        operator: stack.policies[output('OperatorPolicyArn')] ?? [],
      },
    });
    const store = { STATOR_KEYS_TABLE: output('KeysTableName') };
    const made = await runStator(['keys', 'create', '--name', 'rehearsal', '--json'], {
      PATH: process.env.PATH ?? '',
      ...here('operator', store),
    });
    expect(made.stderr).toBe('');
    apiKey = (JSON.parse(made.stdout) as { key: string }).key;
    await startRouter(routerPort);
    await Promise.all([startWorker(), startWorker()]);
    runtime = await startFunction();
    await untilServed(true);
  }, 240_000);

  afterAll(async () => {
    await runtime?.stop();
    await proxy?.close();
    await nats?.stop();
    await server?.stop();
    await account?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('packs a function of at most 1.6 MB for Node 22', () => {
    expect(theFunction()).toMatchObject({ runtime: 'nodejs22.x' });
    expect(packedBytes(theFunction())).toBeLessThanOrEqual(1.6 * MB);
  });

  it('lets in who has a key of stator keys, below the stage alone', async () => {
    expect((await fetch(`${new URL(runtime.url).origin}/v1/models`)).status).toBe(403);
    const stranger = await fetch(`${runtime.url}/v1/models`);
    expect([stranger.status, await stranger.json()]).toMatchObject([401, { error: { code: 'invalid_api_key' } }]);
    await runtime.idle();
  });

  it('streams a chat to both stock clients', async () => {
    expect(await streamChat(openAi(), 24)).toBe(24);
    await runtime.idle();
    const client = new Anthropic({ baseURL: runtime.url, apiKey, maxRetries: 0 });
    const messages = [{ role: 'user' as const, content: 'What are you?' }];
    const message = await client.messages.stream({ model: MODEL, max_tokens: 12, messages }).finalMessage();
    expect(message.usage.output_tokens).toBe(12);
    await runtime.idle();
  });

  it('keeps answers for the key that asked for them', async () => {
    const client = openAi();
    const { id } = await client.responses.create({ model: MODEL, input: 'What are you?', max_output_tokens: 4 });
    await runtime.idle();
    expect((await client.responses.retrieve(id)).id).toBe(id);
    await runtime.idle();
    await client.responses.delete(id);
    await runtime.idle();
    await expect(client.responses.retrieve(id)).rejects.toMatchObject({ status: 404 });
    await runtime.idle();
  });

  it('goes on with every stream of a worker that is killed', async () => {
    let isKilled = false;
    const kill = (count: number): void => {
      if (count < 20 || isKilled) return;
      isKilled = true;
      workers.shift()?.signal('SIGKILL');
    };
    const answers = await Promise.all(Array.from({ length: 3 }, () => streamChat(openAi(), 200, kill)));
    expect(answers).toEqual([200, 200, 200]);
    expect(isKilled).toBe(true);
    await runtime.idle();
  });

  it('ends a stream that is cancelled by its id', async () => {
    const client = openAi();
    const messages = [{ role: 'user' as const, content: 'What are you?' }];
    const body = { model: MODEL, max_tokens: 3000, messages, stream: true as const, ...{ ignore_eos: true } };
    const stream = await client.chat.completions.create(body);
    let isAsked = false;
    const read = async (): Promise<void> => {
      for await (const chunk of stream) {
        if (isAsked) continue;
        isAsked = true;
        const headers = { authorization: `Bearer ${apiKey}` };
        const cancelled = await fetch(`${runtime.url}/v1/cancel/${chunk.id}`, { method: 'POST', headers });
        expect([cancelled.status, await cancelled.json()]).toMatchObject([200, { cancelled: true }]);
      }
    };
    await expect(read()).rejects.toMatchObject({ code: 'client_closed_request' });
    await runtime.idle();
  });

  it('hydrates a second router from what the first has kept', async () => {
    const blocks = (router: StatorProcess | undefined) =>
      router?.metric('stator_router_index_blocks') ?? Promise.resolve(-1);
    const [first] = routers;
    await waitUntil(async () => ((await first?.metric('stator_router_index_snapshots_total')) ?? 0) > 0, {
      what: 'a snapshot',
      timeoutMs: 20_000,
    });
    const second = await startRouter(await freePort());
    await waitUntil(async () => (await blocks(second)) > 0 && (await blocks(second)) === (await blocks(first)), {
      what: 'equal indexes',
      timeoutMs: 20_000,
    });
  });

  it('rolls a release out and back under a stream that runs on', async () => {
    const before = runtime;
    const tables = Object.keys(stack.tables);
    const running = streamChat(openAi(before), 1500);
    stack = await account.deploy({ ...CONTEXT, functionUrl: 'true' });
    expect(Object.keys(stack.tables)).toEqual(tables);
    const next = await startFunction();
    await untilServed(true, next);
    expect(await streamChat(openAi(next), 8)).toBe(8);
    stack = await account.deploy(CONTEXT);
    expect(Object.keys(stack.tables)).toEqual(tables);
    expect(await streamChat(openAi(before), 8)).toBe(8);
    expect(await running).toBe(1500);
    await next.stop();
    await before.idle();
  });

  it('forgets workers whose lease runs out, and holds a request until another registers', async () => {
    for (const worker of workers.splice(0)) worker.signal('SIGKILL');
    await untilServed(false);
    const held = await startFunction({ STATOR_HOLD_TIMEOUT: '60' });
    const answer = streamChat(openAi(held), 8);
    await startWorker();
    expect(await answer).toBe(8);
    await held.stop();
  });

  it('proves to workers the plane token that Secrets Manager has', async () => {
    for (const worker of workers.splice(0)) worker.signal('SIGTERM');
    await untilServed(false);
    await startWorker({ STATOR_PLANE_TOKEN: secretOf(TOKEN_ARN) });
    await untilServed(true);
    await expect(streamChat(openAi(), 4)).rejects.toMatchObject({ status: 503 });
    await runtime.idle();
    const knowing = await startFunction({ STATOR_PLANE_TOKEN_SECRET: TOKEN_ARN, AWS_ACCESS_KEY_ID: 'secret-reader' });
    expect(await streamChat(openAi(knowing), 8)).toBe(8);
    expect(knowing.output()).not.toContain(secretOf(TOKEN_ARN));
    await knowing.stop();
  });

  it('has a worker gather the fleet view when the routers are gone', async () => {
    for (const router of routers) router.signal('SIGKILL');
    const isGathering = () => [...proxy.callsOf('worker')].some((call) => call.startsWith('dynamodb:BatchGetItem'));
    await waitUntil(isGathering, { what: 'a worker that gathers', timeoutMs: 20_000 });
    await untilServed(true);
  });

  it('asks for nothing that its roles refuse, and has no right that nothing uses', () => {
    expect(proxy.refused).toEqual([]);
    const unused = (statements: DeployedFunction['statements'], principal: string): readonly string[] => {
      const ofTables = statements.filter(({ Action }) => [Action].flat().every((each) => each.startsWith('dynamodb:')));
      return unusedGrants(ofTables, proxy.callsOf(principal));
    };
    const rare = (right: string): boolean => RARELY_USED.some((pattern) => pattern.test(right));
    expect(unused(theFunction().statements, 'function').filter((right) => !rare(right))).toEqual([]);
    expect(unused(stack.policies[output('WorkerPolicyArn')] ?? [], 'worker')).toEqual([]);
    const task = Object.values(stack.tasks).find(({ containers }) => containers.some(({ name }) => name === 'router'));
    expect(unused(task?.statements ?? [], 'router').filter((right) => !rare(right))).toEqual([]);
  });
});
