import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic, {
  AuthenticationError as AnthropicAuthenticationError,
  PermissionDeniedError as AnthropicPermissionDeniedError,
} from '@anthropic-ai/sdk';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import OpenAI, { AuthenticationError, PermissionDeniedError, RateLimitError } from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  createTable,
  type DynamoDbServer,
  freePort,
  hasDynamoDb,
  runStator,
  type StatorProcess,
  startDynamoDb,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const MODEL = 'stator-mini';
const HELLO = [{ role: 'user', content: 'What are you?' }] as const;
/** Longest time until a change of a key is seen. */
const CACHE_SECS = '1';

interface Made {
  readonly key: string;
  readonly id: string;
  readonly prefix: string;
}

interface Listed extends Omit<Made, 'key'> {
  readonly name: string;
  readonly isInForce: boolean;
}

const folder = mkdtempSync(join(tmpdir(), 'stator-api-keys-'));
const file = join(folder, 'keys.json');
const tableName = `keys-${process.pid}`;
let server: DynamoDbServer | undefined;

beforeAll(async () => {
  if (!hasDynamoDb()) return;
  server = await startDynamoDb();
  await createTable({ tableName, endpoint: server.url });
});
afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true });
});

describe.each([
  ['file', () => ({ STATOR_KEYS_FILE: file })],
  ['table', () => ({ STATOR_KEYS_TABLE: tableName, STATOR_DYNAMODB_ENDPOINT: server?.url ?? '' })],
] as const)('a frontend that asks for keys, kept in a %s', (kind, storeOf) => {
  const isThere = kind === 'file' || hasDynamoDb();
  const fleet = useFleet();
  let frontend: StatorProcess;
  let store: Readonly<Record<string, string>>;

  beforeAll(async () => {
    if (!isThere) return;
    store = storeOf();
    const env = { ...aws(), ...store, STATOR_KEY_CACHE_SECS: CACHE_SECS, DYN_ENABLE_ANTHROPIC_API: 'true' };
    [frontend] = await Promise.all([fleet.frontend(['--auth=on'], env), fleet.worker()]);
    await fleet.untilWorkers(frontend, 1);
  });

  async function keys<T = Made>(...args: readonly string[]): Promise<T> {
    const { code, stdout, stderr } = await runStator(['keys', ...args, '--json'], { ...aws(), ...store });
    expect([code, stderr]).toEqual([0, '']);
    return JSON.parse(stdout) as T;
  }

  const aws = () => ({
    PATH: process.env.PATH ?? '',
    AWS_ACCESS_KEY_ID: process.env.AWS_ACCESS_KEY_ID ?? 'local',
    AWS_SECRET_ACCESS_KEY: process.env.AWS_SECRET_ACCESS_KEY ?? 'local',
    AWS_REGION: 'us-east-1',
  });
  const openai = (apiKey: string) => new OpenAI({ baseURL: `${frontend.url}/v1`, apiKey, maxRetries: 0 });
  const anthropic = (apiKey: string) => new Anthropic({ baseURL: frontend.url, apiKey, maxRetries: 0 });
  const chat = (key: string) =>
    openai(key).chat.completions.create({ model: MODEL, messages: [...HELLO], max_completion_tokens: 4 });
  const message = (key: string) =>
    anthropic(key).messages.create({ model: MODEL, messages: [...HELLO], max_tokens: 4 });
  const failureOf = (work: Promise<unknown>) =>
    work.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );

  it.runIf(isThere)('serves the official clients with nothing but base URL and key', async () => {
    const { key } = await keys('create', '--name', 'clients');
    expect((await chat(key)).choices[0]?.message.content).toBeTruthy();
    expect((await message(key)).content).toHaveLength(1);
    const stream = await openai(key).chat.completions.create({ model: MODEL, messages: [...HELLO], stream: true });
    let chunks = 0;
    for await (const _ of stream) chunks++;
    expect(chunks).toBeGreaterThan(1);
    expect((await openai(key).models.list()).data.map(({ id }) => id)).toContain(MODEL);
  });

  it.runIf(isThere)('tells a wrong key in each client’s own error, and leaves probes alone', async () => {
    const wrong = `sk-stator-${'a'.repeat(12)}-${'b'.repeat(43)}`;
    for (const key of [wrong, 'none']) {
      const refused = await failureOf(chat(key));
      expect(refused).toBeInstanceOf(AuthenticationError);
      expect(refused).toMatchObject({ code: 'invalid_api_key', type: 'invalid_request_error' });
      expect(await failureOf(message(key))).toBeInstanceOf(AnthropicAuthenticationError);
    }
    for (const path of ['/live', '/health', '/metrics', `/v1/models/${MODEL}/ready`]) {
      expect((await fetch(`${frontend.url}${path}`)).status).toBe(200);
    }
  });

  it.runIf(isThere)('keeps a key to its models, its scopes and its rate', async () => {
    const elsewhere = await keys('create', '--name', 'elsewhere', '--models', 'another');
    expect(await failureOf(chat(elsewhere.key))).toBeInstanceOf(PermissionDeniedError);
    expect(await failureOf(message(elsewhere.key))).toBeInstanceOf(AnthropicPermissionDeniedError);
    const slow = await keys('create', '--name', 'slow', '--requests-per-minute', '1');
    const { response } = await openai(slow.key)
      .chat.completions.create({ model: MODEL, messages: [...HELLO], max_completion_tokens: 4 })
      .withResponse();
    expect(response.headers.get('x-ratelimit-remaining-requests')).toBe('0');
    const refused = await failureOf(chat(slow.key));
    expect(refused).toBeInstanceOf(RateLimitError);
    expect(Number((refused as RateLimitError).headers?.get('retry-after'))).toBeGreaterThan(30);
  });

  it.runIf(isThere)('refuses a revoked key within the time of its cache', async () => {
    const { key, id, prefix } = await keys('create', '--name', 'leaver');
    expect(prefix).toBe(key.slice(0, prefix.length));
    await chat(key);
    await keys('revoke', id);
    await waitUntil(async () => (await failureOf(chat(key))) instanceof AuthenticationError, { what: 'the refusal' });
    const listed = (await keys<readonly Listed[]>('list')).find((each) => each.id === id);
    expect(listed).toMatchObject({ name: 'leaver', isInForce: false });
    await keys('revoke', id, '--forget');
    expect((await keys<readonly Listed[]>('list')).some((each) => each.id === id)).toBe(false);
  });

  it.runIf(isThere)('takes the old key beside the new one for the overlap of a rotation', async () => {
    const first = await keys('create', '--name', 'rotated');
    await chat(first.key);
    const second = await keys('rotate', first.prefix, '--overlap', '1h');
    expect(second.id).toBe(first.id);
    await waitUntil(async () => (await failureOf(chat(second.key))) === undefined, { what: 'the new key' });
    expect(await failureOf(chat(first.key))).toBeUndefined();
    const third = await keys('rotate', first.id, '--overlap', '0s');
    await waitUntil(async () => (await failureOf(chat(second.key))) !== undefined, { what: 'the end of the old one' });
    expect(await failureOf(chat(third.key))).toBeUndefined();
  });
});

describe('stator keys', () => {
  const path = join(folder, 'cli.json');
  const run = (...args: readonly string[]) =>
    runStator(['keys', ...args, '--keys-file', path], { PATH: process.env.PATH ?? '' });

  it('shows a key once, on stdout alone, and lists it by its prefix', async () => {
    const made = await run('create', '--name', 'my laptop', '--scopes', 'inference,admin', '--expires', '90d');
    expect([made.code, made.stdout]).toEqual([
      0,
      expect.stringMatching(/^sk-stator-[0-9A-Za-z]{12}-[0-9A-Za-z]{43}\n$/),
    ]);
    expect(made.stderr).toContain('my laptop');
    const secret = made.stdout.trim().slice(-43);
    const { stdout } = await run('list');
    expect(stdout).toContain(made.stdout.slice(0, 22));
    expect(stdout).toContain('inference,admin');
    for (const text of [stdout, (await run('list', '--json')).stdout, readFileSync(path, 'utf8')]) {
      expect(text).not.toContain(secret);
    }
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it.each([
    [['create'], '--name is needed'],
    [['create', '--name', 'x', '--scopes', 'root'], '--scopes "root": allowed: inference, admin, metrics'],
    [['create', '--name', 'x', '--expires', 'soon'], '--expires "soon": allowed: a number and s, m, h or d'],
    [['create', '--name', 'x', '--tokens-per-day', '0'], '--tokens-per-day "0": allowed: a whole number from 1'],
    [['create', '--name', 'x', '--owner', 'a b'], '--owner "a b": allowed'],
    [['create', '--name', 'x', '--routes', 'chat'], '--routes "chat": allowed: paths that begin with /'],
    [['list', '--name', 'x'], 'stator keys list takes no --name'],
    [['revoke'], 'stator keys revoke takes the id of one key'],
    [['revoke', 'nobody'], '"nobody" is not the id of a key'],
    [['rotate', 'a'.repeat(12)], `there is no key ${'a'.repeat(12)}`],
    [['burn'], 'allowed: create, list, rotate, revoke'],
    [[], 'stator keys takes: create, list, rotate, revoke'],
    [['create', '--nome', 'x'], "Unknown option '--nome'"],
  ])('says in one line what is wrong with %j', async (args, reason) => {
    const { code, stdout, stderr } = await run(...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(reason);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });

  it('says where keys could be kept when nothing says so', async () => {
    const { code, stderr } = await runStator(['keys', 'list'], { PATH: process.env.PATH ?? '' });
    expect([code, stderr]).toEqual([
      2,
      'stator: no store of API keys is named: set STATOR_KEYS_TABLE, or --keys-file FILE\n',
    ]);
  });
});

describe('a frontend without a store of keys', () => {
  const fleet = useFleet();

  it('does not start if its settings require keys', async () => {
    const { code, stderr } = await runStator(['frontend', '--auth=on'], { PATH: process.env.PATH ?? '' });
    expect(code).toBe(2);
    expect(stderr.trim().split('\n')).toEqual([expect.stringContaining('--auth on needs a store of API keys')]);
  });

  it('warns once where others reach it, unless that is wanted, and serves', async () => {
    const open = fleet.spawn(['frontend', '--http-host=0.0.0.0', '--http-port=0', '--discovery-backend=mem']);
    await open.waitForOutput(/serving url=/);
    expect(open.stderr() + open.stdout()).toMatch(/no API keys are required/);
    const wanted = fleet.spawn([
      'frontend',
      '--http-host=0.0.0.0',
      '--http-port=0',
      '--discovery-backend=mem',
      '--auth=off',
    ]);
    await wanted.waitForOutput(/serving url=/);
    expect(wanted.stderr() + wanted.stdout()).not.toMatch(/API keys/);
  });

  it('requires keys as soon as it has a store, on loopback too, unless its settings say otherwise', async () => {
    const args = ['frontend', '--http-port=0', '--discovery-backend=mem', '--keys-file', join(folder, 'auto.json')];
    const start = async (host: string, ...more: readonly string[]) => {
      const child = fleet.spawn([...args, `--http-host=${host}`, ...more]);
      const [, url = ''] = await child.waitForOutput(/serving url=(\S+)/);
      return { status: (await fetch(`${url}/v1/models`)).status, said: child.stderr() + child.stdout() };
    };
    for (const host of ['0.0.0.0', '127.0.0.1']) {
      const asking = await start(host);
      expect([asking.status, asking.said]).toEqual([401, expect.not.stringContaining('every client that reaches')]);
      const open = await start(host, '--auth=off');
      expect([open.status === 401, open.said]).toEqual([false, expect.stringContaining('STATOR_AUTH=off leaves its')]);
    }
  });

  it('asks for keys in one process with its workers, and by gRPC', async () => {
    const grpc = await freePort();
    const keys = ['--keys-file', join(folder, 'auto.json')];
    const local = fleet.spawn(['local', '--http-port=0', `--grpc-port=${grpc}`, ...keys]);
    const [, url = ''] = await local.waitForOutput(/endpoint: (\S+)\/v1/);
    expect((await fetch(`${url}/v1/models`)).status).toBe(401);
    expect((await fetch(`${url}/live`)).status).toBe(200);
    await local.waitForOutput(/curl -N [\s\S]*-H "authorization: Bearer \$STATOR_API_KEY" \\\n +-d [\s\S]*Stop with/);
    const client = new Client(`127.0.0.1:${grpc}`, credentials.createInsecure());
    const method = '/inference.GRPCInferenceService/ModelInfer';
    const failure = await new Promise<ServiceError | null>((resolve) => {
      const raw = (bytes: Buffer): Buffer => bytes;
      client.makeUnaryRequest(method, raw, raw, Buffer.alloc(0), (error) => resolve(error));
    });
    client.close();
    expect(failure?.code).toBe(status.UNAUTHENTICATED);
  });
});
