import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type Client,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceClientConstructor,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  freePort,
  runStator,
  type SpawnedProcess,
  type StatorProcess,
  spawnNode,
  spawnProgram,
  useFleet,
} from '../support/index.ts';

const PYTHON = process.env.STATOR_TEST_TRITON ?? '';
const GO = process.env.STATOR_TEST_KSERVE_GO ?? '';
const MODELS = fileURLToPath(new URL('kserve-models.mjs', import.meta.url));
const SCRIPT = fileURLToPath(new URL('triton_client.py', import.meta.url));
const ROOT = fileURLToPath(new URL('../../', import.meta.url));

const A = Array.from({ length: 16 }, (_, at) => at);
const SUMS = A.map((each) => each + 1);
const DIFFERENCES = A.map((each) => each - 1);

const folder = mkdtempSync(join(tmpdir(), 'stator-kserve-'));
const fleet = useFleet();
let address: string;
let key: string;
let frontend: StatorProcess;
let models: SpawnedProcess;

beforeAll(async () => {
  const file = join(folder, 'keys.json');
  const made = await runStator(['keys', 'create', '--name=kserve', `--keys-file=${file}`, '--json'], {
    PATH: process.env.PATH,
  });
  expect(made.stderr).toBe('');
  ({ key } = JSON.parse(made.stdout) as { key: string });
  const port = await freePort();
  address = `127.0.0.1:${port}`;
  models = spawnNode([MODELS, '--discovery-backend=file'], {
    cwd: ROOT,
    env: { DYN_FILE_KV: fleet.fileKv, DYN_TCP_RPC_HOST: '127.0.0.1' },
  });
  [frontend] = await Promise.all([
    fleet.frontend([`--grpc-port=${port}`, '--auth=on', `--keys-file=${file}`]),
    fleet.worker(),
    models.waitForOutput(/all models are there/, 30_000),
  ]);
  for (const model of ['stator-mini', 'simple', 'simple_string', 'echo']) await fleet.untilWorkers(frontend, 1, model);
});
afterAll(async () => {
  await models.kill();
  rmSync(folder, { recursive: true, force: true });
});

async function reportOf<Report>(command: string, args: readonly string[]): Promise<Report> {
  const program = spawnProgram(command, [...args, address, key]);
  expect(await program.exited, program.stderr()).toBe(0);
  return JSON.parse(program.stdout()) as Report;
}

describe.runIf(PYTHON !== '')("Triton's own client", () => {
  let report: Readonly<Record<string, unknown>>;

  beforeAll(async () => {
    report = await reportOf(PYTHON, [SCRIPT]);
  });

  it('finds the server, its models and what they take', () => {
    const vector = (name: string) => [name, 'INT32', [1, 16]];
    expect(report.server).toEqual({
      live: true,
      ready: true,
      model: true,
      unknown: false,
      name: 'dynamo',
      index: ['echo', 'simple', 'simple_string', 'stator-mini'].map((name) => [name, '1', 'READY']),
      inputs: [vector('INPUT0'), vector('INPUT1')],
      config: ['OUTPUT0', 'OUTPUT1'].map((name) => [name, 8, [1, 16]]),
      text: ['text_input', 'streaming'],
    });
    expect(report.statistics).toEqual({ more: 3, version: '1' });
  });

  it('adds and subtracts with simple and simple_string, at once, too', () => {
    const all = Array.from({ length: 8 }, () => true);
    expect(report.arithmetic).toEqual({ simple: true, id: 'mine', simple_string: true, async_infer: all });
  });

  it('gets every type of elements back as it sent it', () => {
    const types = 'BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 BF16 BYTES empty'.split(' ');
    expect(report.types).toEqual(Object.fromEntries(types.map((type) => [type, true])));
  });

  it('streams text whose last message says so, and goes on after an error of a model', () => {
    const { text, whole } = report.stream as { text: string; whole: readonly string[] };
    expect(report.stream).toMatchObject({
      finish: 'length',
      finals: 1,
      ids: 'words',
      fault: 'Internal: boom',
      order: [0, 1, 2],
      end: ['StatusCode.NOT_FOUND', expect.stringMatching(/^Model 'nope' not found\. Served here: /)],
    });
    expect(whole).toEqual([text, 'length']);
    expect(text.length).toBeGreaterThan(4);
  });

  it.each([
    ['unknown model', 'NOT_FOUND', "Model 'nope' not found"],
    ['an input of another shape', 'INVALID_ARGUMENT', 'INPUT0 must be Int32 of shape [1,16]'],
    ['no input', 'INVALID_ARGUMENT', 'INPUT1 must be Int32 of shape [1,16]'],
    ['bytes that are too few', 'INVALID_ARGUMENT', 'Raw input length must be a multiple of 4'],
    ["a chat model's other input", 'INVALID_ARGUMENT', 'Invalid input name: INPUT0'],
    ['a parameter of the wrong kind', 'INVALID_ARGUMENT', "Parameter 'n' must be a number"],
    ['a value out of range', 'INVALID_ARGUMENT', 'Temperature must be between 0 and 2, got 9'],
    ['streaming in one response', 'INVALID_ARGUMENT', 'Streaming is not supported for this endpoint'],
    ["the model's own error", 'INTERNAL', 'Failed to fold completions stream: Internal: boom'],
    ['its timeout', 'DEADLINE_EXCEEDED', 'Request timeout expired'],
    // Its own library ends the call at this deadline, or the server's word of the same deadline comes first.
    ["the client's", 'DEADLINE_EXCEEDED', /deadline exceeded/i],
    ['a method that is not served', 'UNIMPLEMENTED', 'does not implement the method'],
    ['no key', 'UNAUTHENTICATED', 'API key'],
  ])('gets an error that says what is wrong: %s', (what, status, message) => {
    const { [what]: told } = report.errors as Readonly<Record<string, readonly string[]>>;
    expect(told).toEqual([
      `StatusCode.${status}`,
      typeof message === 'string' ? expect.stringContaining(message) : expect.stringMatching(message),
    ]);
  });

  it('stops the worker when it cancels a call or leaves a stream', async () => {
    expect(report.cancels).toEqual({ first: true });
    await models.waitForOutput(/echo of unary is stopped/);
    await models.waitForOutput(/echo of stream is stopped/);
  });

  it('does the same with asyncio', () => {
    const { streams } = report.aio as { streams: readonly string[] };
    expect(report.aio).toEqual({ ready: true, at_once: Array.from({ length: 16 }, () => true), streams });
    expect(streams[0]).toBe(streams[1]);
    expect(streams[0]).not.toBe('');
  });

  it('is not needed to read health and reflection', () => {
    expect(report.others).toEqual({
      health: [1, 1, 1],
      watch: 1,
      services: ['grpc.health.v1.Health', 'inference.GRPCInferenceService'],
      methods: 20,
      input: 'inference.ModelInferRequest',
    });
  });

  it('shows in the metrics of each kind of model', async () => {
    const count = (...labels: readonly string[]) => frontend.metric('dynamo_frontend_requests_total', ...labels);
    expect(
      await count('endpoint="tensor"', 'request_type="unary"', 'model="simple"', 'status="success"'),
    ).toBeGreaterThan(20);
    expect(await count('endpoint="tensor"', 'request_type="stream"', 'model="echo"')).toBeGreaterThan(1);
    expect(await count('endpoint="completions"', 'request_type="stream"', 'model="stator-mini"')).toBeGreaterThan(1);
    expect(await count('model="nope"')).toBe(0);
  });
});

describe.runIf(GO !== '')('a client in Go with stubs of the published files', () => {
  let report: Readonly<Record<string, unknown>>;

  beforeAll(async () => {
    report = await reportOf(join(GO, 'kserve-client'), []);
  });

  it('reads what it sent raw as raw, and typed as typed', () => {
    const told = `[${SUMS.join(' ')}] [${DIFFERENCES.join(' ')}]`;
    expect(report).toMatchObject({ raw: told, typed: told, id: 'go' });
  });

  it('reads text whole and streamed, until a request that cannot be', () => {
    expect(report.streamed).toBe(report.whole);
    expect(report.whole).not.toBe('');
    expect(report['stream ends']).toEqual(['NotFound', expect.stringContaining("Model 'nope' not found")]);
  });

  it('is let in with a key, and to health without one', () => {
    expect(report).toMatchObject({ live: true, health: true });
    expect(report['without a key']).toEqual(['Unauthenticated', expect.stringContaining('API key')]);
    expect(report['metadata without a key']).toEqual(['Unauthenticated', expect.stringContaining('API key')]);
  });

  it('reads of its deadline and of a message that is too large', () => {
    expect(report.late).toEqual(['DeadlineExceeded', expect.any(String)]);
    expect(report.large).toEqual(['ResourceExhausted', expect.stringContaining('4194304')]);
  });
});

describe('a client in Node that reads the published files', () => {
  interface Answer {
    readonly outputs: readonly { readonly contents: { readonly bytes_contents: readonly Buffer[] } }[];
    readonly raw_output_contents: readonly Buffer[];
  }
  type Unary = (request: object, metadata: Metadata, done: (error: Error | null, answer: Answer) => void) => void;
  let client: Client & Record<'ModelInfer', Unary>;
  let metadata: Metadata;

  beforeAll(() => {
    const options = { keepCase: true, longs: String, defaults: true, oneofs: true };
    const definition = loadSync(join(ROOT, 'proto/grpc_service.proto'), options);
    const { inference } = loadPackageDefinition(definition) as { inference: Record<string, ServiceClientConstructor> };
    client = new inference.GRPCInferenceService!(address, credentials.createInsecure()) as unknown as typeof client;
    metadata = new Metadata();
    metadata.set('x-api-key', key);
  });
  afterAll(() => client.close());

  const infer = (request: object): Promise<Answer> =>
    new Promise((resolve, reject) => {
      client.ModelInfer(request, metadata, (error, answer) => (error === null ? resolve(answer) : reject(error)));
    });

  it('adds, subtracts, and reads text', async () => {
    const raw = (values: readonly number[]) => Buffer.from(Int32Array.from(values).buffer);
    const inputs = ['INPUT0', 'INPUT1'].map((name) => ({ name, datatype: 'INT32', shape: [1, 16] }));
    const contents = [raw(A), raw(A.map(() => 1))];
    const simple = await infer({ model_name: 'simple', inputs, raw_input_contents: contents });
    expect(simple.raw_output_contents).toEqual([raw(SUMS), raw(DIFFERENCES)]);
    const prompt = { bytes_contents: [Buffer.from('What are you?')] };
    const text = await infer({
      model_name: 'stator-mini',
      inputs: [{ name: 'text_input', datatype: 'BYTES', shape: [1], contents: prompt }],
      parameters: { max_tokens: { int64_param: 4 } },
    });
    const [said, finish] = text.outputs.map(({ contents: { bytes_contents: texts } }) => String(texts[0]));
    expect([said === '', finish]).toEqual([false, 'length']);
  });

  it('gets an error that says what is wrong', async () => {
    await expect(infer({ model_name: 'nope' })).rejects.toMatchObject({
      code: 5,
      details: expect.stringContaining("Model 'nope' not found"),
    });
    await expect(infer({ model_name: 'simple' })).rejects.toMatchObject({ code: 3 });
  });
});
