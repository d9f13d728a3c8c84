import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import {
  type AttributeDefinition,
  CreateTableCommand,
  DynamoDBClient,
  type KeySchemaElement,
} from '@aws-sdk/client-dynamodb';
import { CreateSecretCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openSecrets } from '../../shared/fleet/index.ts';
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
import { unusedGrants } from '../support/aws/policy.ts';
import {
  type DynamoDbServer,
  freePort,
  hasDynamoDb,
  hasNatsServer,
  runStator,
  type SpawnedProcess,
  type StatorProcess,
  spawnProgram,
  startDynamoDb,
  useFleet,
  waitUntil,
} from '../support/index.ts';
import { makeOtherUser, type OtherUser } from '../support/lambda/other-user.ts';
import { hasLambdaRuntime, type LambdaRuntime, startLambdaRuntime } from '../support/lambda-runtime.ts';

const MODEL = 'stator-mini';
const STACK = 'Rehearsal';
/** A machine shared with other tests is slower than one that serves. */
const PATIENT = { STATOR_ROUTER_CHOOSE_TIMEOUT_MS: '500', STATOR_ROUTER_CONNECT_TIMEOUT_MS: '2000' };
/** Deaths are noticed sooner than in a fleet that is not watched. */
const TIMES = { STATOR_LEASE_TTL_SECS: '2' };
const LOOPBACK = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1', DYN_SYSTEM_HOST: '127.0.0.1' };
const MB = 1_000_000;
/** A path that each process understands in its own way, as each machine does. */
const THEIRS = '/proc/self/cwd/model';

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

/** Services whose calls are recorded. Logs and network interfaces are the runtime's, which is not here. */
const RECORDED = /^(dynamodb|s3):/;

type Env = Readonly<Record<string, string>>;

const fleet = useFleet();
let folder: string;
/** Nobody but this user reads it. */
let workersFolder: string;
/** As whom functions run, where another user can be had. */
let stranger: OtherUser | undefined;
let account: Account;
let stack: DeployedStack;
let server: DynamoDbServer;
let proxy: IamProxy;
let nats: SpawnedProcess;
let natsUrl: string;
let runtime: LambdaRuntime;
let apiKey: string;
const routers: StatorProcess[] = [];
const workers: StatorProcess[] = [];
/** Of Secrets Manager, which moto's CloudFormation does not fill: a text for each address that somebody refers to. */
function secretOf(arn: string): string {
  if (/:previous(_password)?::$/.test(arn)) return 'none';
  const user = /Nats(Worker|Router).*:(username|previous_username)::$/.exec(arn);
  const text = (named: string): string => `secret-${Buffer.from(named).toString('hex').slice(-48)}`;
  if (user === null) return text(arn);
  return `${user[1]?.toLowerCase()}${user[2] === 'username' ? '' : '-before'}`;
}

function output(name: string): string {
  const value = stack.outputs[name];
  if (value === undefined) throw new Error(`the stack has no output ${name}`);
  return value;
}

/** Where the workers' plane token comes from. */
function tokenArn(): string {
  return taskOf('worker-0').container.secrets.STATOR_PLANE_TOKEN ?? 'none';
}

/** The HTTP function; the CDK adds one of its own that empties buckets. */
function theFunction(): DeployedFunction {
  const found = Object.values(stack.functions).filter(({ environment }) => 'STATOR_AUTH' in environment);
  if (found[0] === undefined || found.length > 1) throw new Error('the stack is to have one HTTP function');
  return found[0];
}

/** Deploys by a configuration of its own, the same for the same one; its images are made already. */
async function deploy(edges: { readonly function?: { readonly memoryMb: number } } = {}): Promise<DeployedStack> {
  const path = join(folder, `release-${edges.function?.memoryMb ?? 'first'}.json`);
  writeFileSync(path, JSON.stringify({ name: STACK, images: { edge: 'stator:rehearsed' }, edges }));
  const { [STACK]: deployed } = await account.deploy({ config: path });
  if (deployed === undefined) throw new Error(`there is no stack ${STACK}`);
  return deployed;
}

/** What a process of the deployment gets, at the addresses that its network has here. */
function here(principal: string, env: Env): Env {
  const resolved = Object.entries(env).map(([name, value]) => {
    const local = value.replace('nats://127.0.0.1:4222', natsUrl);
    return [name, local] as const;
  });
  const credentials = { AWS_ACCESS_KEY_ID: principal, AWS_SECRET_ACCESS_KEY: principal, AWS_REGION: 'us-east-1' };
  const endpoints = { STATOR_DYNAMODB_ENDPOINT: proxy.url, AWS_ENDPOINT_URL_SECRETS_MANAGER: proxy.url };
  const bucket = { AWS_ENDPOINT: proxy.url, AWS_ALLOW_HTTP: 'true' };
  return { ...Object.fromEntries(resolved), ...credentials, ...endpoints, ...bucket };
}

/** The task of the stack that runs `container`. */
function taskOf(container: string) {
  const task = Object.values(stack.tasks).find(({ containers }) => containers.some(({ name }) => name === container));
  const found = task?.containers.find(({ name }) => name === container);
  if (task === undefined || found === undefined) throw new Error(`the stack has no container ${container}`);
  return { statements: task.statements, container: found };
}

/** Environment of a container as its definition has it, with the secrets that it is given. */
function environmentOf(name: string, principal: string): Env {
  const { environment, secrets } = taskOf(name).container;
  const given = Object.entries(secrets).map(([variable, arn]) => [variable, secretOf(arn)] as const);
  return { ...here(principal, { ...environment, ...Object.fromEntries(given) }), DYN_LOGGING_JSONL: 'false' };
}

/** One of the worker containers, once more or for the first time; its ports are its own here, where all share an address. */
async function startWorker(more: Env = {}): Promise<StatorProcess> {
  const [, ...flags] = taskOf('worker-0').container.command;
  const env = {
    ...environmentOf('worker-0', 'task'),
    ...TIMES,
    ...LOOPBACK,
    DYN_TCP_RPC_PORT: '0',
    DYN_SYSTEM_PORT: '0',
  };
  // Its model lies in a folder that is its own; what has that name elsewhere is something else.
  const model = [`--model-path=${THEIRS}`, '--decode-speedup-ratio=0.5'];
  const worker = await fleet.worker([...flags, ...model], { ...env, ...more }, { cwd: workersFolder });
  workers.push(worker);
  return worker;
}

/** The edge container. What it reads of the bucket shows: its cache is its own, and begins empty. */
async function startRouter(): Promise<StatorProcess> {
  const own = {
    DYN_HTTP_PORT: '0',
    DYN_TCP_RPC_PORT: '0',
    STATOR_SNAPSHOT_INTERVAL_SECS: '1',
    STATOR_ARTIFACTS_CACHE_DIR: join(folder, 'router'),
  };
  const [, ...flags] = taskOf('edge').container.command;
  const router = await fleet.frontend(flags, { ...environmentOf('edge', 'task'), ...TIMES, ...LOOPBACK, ...own });
  routers.push(router);
  return router;
}

/** The NATS container: what its shell runs, with ports and a folder of its own. */
async function startNats(): Promise<void> {
  const { command, secrets } = taskOf('nats').container;
  const passwords = Object.entries(secrets).map(([variable, arn]) => [variable, secretOf(arn)] as const);
  const data = join(folder, 'nats');
  mkdirSync(data);
  const [port, monitor] = [await freePort(), await freePort()];
  const start = command
    .join(' ')
    .replaceAll('/data', data)
    .replace(/port: 4222/, `port: ${port}`)
    .replace(/127\.0\.0\.1:8222/, `127.0.0.1:${monitor}`);
  const PATH = `${dirname(process.env.STATOR_TEST_NATS_BIN ?? '')}:${process.env.PATH}`;
  nats = spawnProgram('/bin/sh', ['-c', start], { env: { PATH, ...Object.fromEntries(passwords) } });
  natsUrl = `nats://127.0.0.1:${port}`;
  await nats.waitForOutput(/Server is ready/);
}

async function startFunction(more: Env = {}, environment = theFunction().environment): Promise<LambdaRuntime> {
  const deployed = theFunction();
  const directory = mkdtempSync(join(folder, 'code-'));
  expect(await unpack(deployed, directory)).toContain('index.mjs');
  stranger?.own(directory);
  const env = { ...here('function', environment), ...PATIENT, ...more };
  return startLambdaRuntime({
    directory,
    handler: deployed.handler,
    timeoutMs: deployed.timeoutSecs * 1000,
    env: { ...env, STATOR_ARTIFACTS_CACHE_DIR: join(directory, 'tmp') }, // a function has /tmp of its own
    environmentsMax: 4,
    stage: '/prod',
    gatewayAnswers: stack.gatewayAnswers,
    ...(stranger === undefined ? {} : { as: stranger }),
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
    workersFolder = join(folder, 'workers');
    mkdirSync(workersFolder, { mode: 0o700 });
    cpSync(resolve('shared/artifacts/builtin-model'), join(workersFolder, 'model'), { recursive: true });
    stranger = makeOtherUser(folder);
    account = await openAccount();
    stack = await deploy();
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
    await startNats();
    proxy = await startIamProxy({
      target: server.url,
      storage: account.url,
      secretOf,
      arnOf: (name) => stack.tables[name]?.arn ?? `no-table/${name}`,
      principals: {
        function: theFunction().statements,
        task: taskOf('edge').statements,
        'secret-reader': [
          ...theFunction().statements,
          { Effect: 'Allow', Action: 'secretsmanager:GetSecretValue', Resource: tokenArn() },
        ],
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
    const pushed = await runStator(
      ['artifacts', 'push', join(workersFolder, 'model'), '--bucket', output('ArtifactsBucketName')],
      {
        PATH: process.env.PATH ?? '',
        ...here('operator', {}),
      },
    );
    expect(pushed).toMatchObject({ code: 0 });
    await startRouter();
    // The workers that come first give no files: who opens their model has it from the bucket.
    await Promise.all([startWorker({ DYN_SYSTEM_PORT: '-1' }), startWorker({ DYN_SYSTEM_PORT: '-1' })]);
    runtime = await startFunction();
    await untilServed(true);
  }, 240_000);

  afterAll(async () => {
    await runtime?.stop();
    await proxy?.close();
    await nats?.kill();
    await server?.stop();
    await account?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('packs a function of at most 1.6 MB for Node 22', () => {
    expect(theFunction()).toMatchObject({ runtime: 'nodejs22.x' });
    expect(packedBytes(theFunction())).toBeLessThanOrEqual(1.6 * MB);
  });

  it('lets in who has a key of stator keys, below the stage alone', async () => {
    expect((await fetch(`${new URL(runtime.url).origin}/v1/models`)).status).toBe(404); // by another name of the API
    const stranger = await fetch(`${runtime.url}/v1/models`);
    expect([stranger.status, await stranger.json()]).toMatchObject([401, { error: { code: 'invalid_api_key' } }]);
    await runtime.idle();
  });

  it('refuses as the gateway does, in the words that clients know', async () => {
    const client = openAi();
    const messages = [{ role: 'user' as const, content: 'x'.repeat(6.5 * 2 ** 20) }];
    await expect(client.chat.completions.create({ model: MODEL, messages })).rejects.toMatchObject({
      status: 413,
      code: 'request_too_large',
      type: 'invalid_request_error',
    });
    const running = Array.from({ length: 4 }, () => streamChat(client, 60)); // as many as there may be
    await waitUntil(() => runtime.environments().filter(({ isIdle }) => !isIdle).length === 4);
    await expect(client.models.list()).rejects.toMatchObject({
      status: 429,
      code: 'rate_limit_exceeded',
      headers: expect.toSatisfy((headers: Headers) => headers.get('retry-after') === '1'),
    });
    expect(await Promise.all(running)).toEqual([60, 60, 60, 60]);
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

  it('tells CloudWatch of requests in lines of its log, and of no model that only clients know', async () => {
    await expect(
      openAi().chat.completions.create({ model: 'made-up', messages: [{ role: 'user', content: 'hi' }] }),
    ).rejects.toMatchObject({ status: 404 });
    await runtime.idle();
    const lines = runtime
      .output()
      .split('\n')
      .filter((line) => line.includes('"_aws"'));
    const told = lines.map((line) => JSON.parse(line) as { Model?: string; TimeToFirstToken?: number });
    expect(told).toContainEqual(expect.objectContaining({ TimeToFirstToken: expect.any(Number), OutputTokens: 24 }));
    expect([...new Set(told.map(({ Model }) => Model))]).toEqual(expect.not.arrayContaining(['made-up']));
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
    const second = await startRouter();
    await waitUntil(async () => (await blocks(second)) > 0 && (await blocks(second)) === (await blocks(first)), {
      what: 'equal indexes',
      timeoutMs: 20_000,
    });
  });

  it('rolls a release out and back under a stream that runs on', async () => {
    const before = runtime;
    const tables = Object.keys(stack.tables);
    const running = streamChat(openAi(before), 1500);
    stack = await deploy({ function: { memoryMb: 1024 } });
    expect(Object.keys(stack.tables)).toEqual(tables);
    expect(theFunction().memoryMb).toBe(1024);
    const next = await startFunction();
    await untilServed(true, next);
    expect(await streamChat(openAi(next), 8)).toBe(8);
    stack = await deploy();
    expect(theFunction().memoryMb).not.toBe(1024);
    expect(Object.keys(stack.tables)).toEqual(tables);
    expect(await streamChat(openAi(before), 8)).toBe(8);
    expect(await running).toBe(1500);
    await next.stop();
    await before.idle();
  });

  it('forgets workers whose lease runs out, and holds a request until another registers', async () => {
    for (const worker of workers.splice(0)) worker.signal('SIGKILL');
    await untilServed(false);
    const held = await startFunction();
    const answer = streamChat(openAi(held), 8);
    await startWorker();
    expect(await answer).toBe(8);
    await held.stop();
  });

  it('proves to workers the plane token that Secrets Manager has, and finds none that knows another', async () => {
    const { STATOR_SECRETS_TABLE: _, ...others } = theFunction().environment;
    const named = { ...others, STATOR_PLANE_TOKEN_SECRET: tokenArn() };
    const token = 'a token that no worker of this fleet knows';
    const stranger = await startFunction({ STATOR_PLANE_TOKEN: token, STATOR_HOLD_TIMEOUT: '0' }, others);
    await expect(streamChat(openAi(stranger), 4)).rejects.toMatchObject({ status: 503 });
    await stranger.stop();
    const knowing = await startFunction({ AWS_ACCESS_KEY_ID: 'secret-reader' }, named);
    expect(await streamChat(openAi(knowing), 8)).toBe(8);
    expect(knowing.output()).not.toContain(secretOf(tokenArn()));
    await knowing.stop();
  });

  it('serves on without a router, and forgets a worker that drains', async () => {
    for (const router of routers) router.signal('SIGKILL');
    await untilServed(true);
    expect(await streamChat(openAi(), 8)).toBe(8);
    await runtime.idle();
    expect(runtime.output()).toContain('"RouterFallbacks":1'); // what the alarm counts
    for (const worker of workers.splice(0)) {
      worker.signal('SIGTERM');
      expect(await worker.exited).toBe(0);
    }
    await untilServed(false);
  });

  it('rotates secrets that Secrets Manager keeps, and readers get the previous one as well', async () => {
    const env = { AWS_ACCESS_KEY_ID: 'rotator', AWS_SECRET_ACCESS_KEY: 'rotator', AWS_REGION: 'us-east-1' };
    const client = new SecretsManagerClient({
      endpoint: account.url,
      region: env.AWS_REGION,
      credentials: { accessKeyId: 'rotator', secretAccessKey: 'rotator' },
    });
    const before = { token: 'o'.repeat(40), ids: JSON.stringify({ previous: 'none', current: 'i'.repeat(40) }) };
    for (const [Name, SecretString] of Object.entries(before)) {
      await client.send(new CreateSecretCommand({ Name, SecretString }));
    }
    client.destroy();
    const args = ['secrets', 'rotate', '--plane-token', 'token', '--id-secret', 'ids'];
    const rotated = await runStator(args, { PATH: process.env.PATH ?? '', ...env, AWS_ENDPOINT_URL: account.url });
    expect(rotated).toMatchObject({ code: 0, stdout: 'done\n' });
    const names = { STATOR_PLANE_TOKEN_SECRET: 'token', STATOR_ID_SECRET_SECRET: 'ids' };
    process.env.AWS_ENDPOINT_URL_SECRETS_MANAGER = account.url;
    const read = await openSecrets(names).finally(() => delete process.env.AWS_ENDPOINT_URL_SECRETS_MANAGER);
    expect(read.env).toMatchObject({
      STATOR_PLANE_TOKEN: expect.stringMatching(/^[0-9a-f]{64}$/),
      STATOR_PLANE_TOKEN_PREVIOUS: before.token,
      STATOR_ID_SECRET: expect.stringMatching(/^[0-9a-f]{64}$/),
      STATOR_ID_SECRET_PREVIOUS: 'i'.repeat(40),
    });
  });

  it('asks for nothing that its roles refuse, and has no right that nothing uses', () => {
    expect(proxy.refused).toEqual([]);
    const unused = (statements: DeployedFunction['statements'], principal: string): readonly string[] => {
      const recorded = statements.filter(({ Action }) => [Action].flat().every((each) => RECORDED.test(each)));
      return unusedGrants(recorded, proxy.callsOf(principal));
    };
    const rare = (right: string): boolean => RARELY_USED.some((pattern) => pattern.test(right));
    expect(unused(theFunction().statements, 'function').filter((right) => !rare(right))).toEqual([]);
    expect(unused(taskOf('edge').statements, 'task').filter((right) => !rare(right))).toEqual([]);
  });

  it('goes with everything that it made, and can be deployed again', async () => {
    const { buckets: _, ...left } = await account.destroy(); // what empties a bucket does not run here
    expect(Object.values(left).flat()).toEqual([]);
    const again = await deploy();
    expect(Object.keys(again.tables)).toHaveLength(Object.keys(stack.tables).length);
    expect(again.outputs.CreateKeyCommand).toContain('npx stator keys create --name first');
  });
});
