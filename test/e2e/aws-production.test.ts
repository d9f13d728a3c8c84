import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { StatorConfig } from '../../infra/settings/index.ts';
import {
  type Account,
  type DeployedStack,
  hasMoto,
  type LeftOver,
  openAccount,
  unpack,
} from '../support/aws/deployment.ts';
import {
  EcsCluster,
  imageHere,
  SHARED,
  type Templates,
  TemplateValues,
  withRelease,
} from '../support/aws/ecs/index.ts';
import { functionOf, OPERATOR, openStandIn, outputOf, type StandIn } from '../support/aws/stand-in.ts';
import { hasDynamoDb, hasNatsServer, runStator, waitUntil } from '../support/index.ts';
import { KserveClient } from '../support/kserve/kserve-client.ts';
import { hasLambdaRuntime, type LambdaRuntime, startLambdaRuntime } from '../support/lambda-runtime.ts';

const MODEL = 'stator-mini';
const PROMPT = [{ role: 'user' as const, content: 'What are you?' }];
/** With everything that clients can be given. */
const CONFIG: StatorConfig = {
  images: { edge: 'registry.example/stator:rehearsed' },
  edges: { container: { listener: 'public', grpc: true } },
  domain: {
    name: 'llm.example.com',
    containerName: 'edge.example.com',
    certificateArn: 'arn:aws:acm:us-east-1:123456789012:certificate/12345678-1234-1234-1234-123456789012',
  },
};
/** A machine shared with other tests is slower than one that serves. */
const PATIENT = { STATOR_ROUTER_CHOOSE_TIMEOUT_MS: '3000', STATOR_ROUTER_CONNECT_TIMEOUT_MS: '2000' };
/** Health checks are asked twice a second. */
const TIME_SCALE = 0.05;
/** Of a stream, so that one is under way whatever happens. */
const TOKENS = 300;

type Stacks = Readonly<Record<string, DeployedStack>>;

let folder: string;
let account: Account;
let stacks: Stacks;
let standIn: StandIn;
let cluster: EcsCluster;
let templates: Templates;
let values: TemplateValues;
let runtime: LambdaRuntime;
let apiKey: string;

async function deploy(config: StatorConfig = CONFIG): Promise<void> {
  const path = join(folder, `retain-${config.retain ?? true}.json`); // each synthesised once
  writeFileSync(path, JSON.stringify(config));
  stacks = await account.deploy({ env: 'production', config: path });
  templates = Object.fromEntries(Object.entries(stacks).map(([name, { template }]) => [name, template]));
  const ids = Object.fromEntries(Object.entries(stacks).map(([name, { physicalIds }]) => [name, physicalIds]));
  values = new TemplateValues(templates, ids);
}

/** Access logs of a load balancer stay when it goes. */
const isOfLogs = (bucket: string): boolean => bucket.includes('accesslogs');

/** What a deployment is not to lose. */
function keptBy(deployed: Stacks): Pick<LeftOver, 'tables' | 'buckets'> {
  const tables = Object.values(deployed).flatMap((stack) => Object.keys(stack.tables));
  return { tables: tables.sort(), buckets: [outputOf(deployed, 'ArtifactsBucketName')] };
}

async function startFunction(): Promise<LambdaRuntime> {
  const deployed = functionOf(stacks);
  const directory = mkdtempSync(join(folder, 'code-'));
  await unpack(deployed, directory);
  return startLambdaRuntime({
    directory,
    handler: deployed.handler,
    timeoutMs: deployed.timeoutSecs * 1000,
    env: {
      ...standIn.functionEnvironment(deployed),
      ...SHARED,
      ...PATIENT,
      STATOR_ARTIFACTS_CACHE_DIR: join(directory, 'tmp'),
    },
    environmentsMax: 6,
    stage: '/prod',
  });
}

/** The two ways in: API and function, load balancer and edges. */
const fronts = (): Readonly<Record<string, string>> => ({ function: runtime.url, edge: cluster.balancer?.url ?? '' });
const openAi = (front: string): OpenAI => new OpenAI({ baseURL: `${fronts()[front]}/v1`, apiKey });

/** Tokens of a streamed chat, as many as were asked for when nothing is lost or doubled. */
async function streamChat(front: string, tokens: number, onChunk: (count: number) => void = () => {}): Promise<number> {
  const stream = await openAi(front).chat.completions.create({
    model: MODEL,
    max_tokens: tokens,
    messages: PROMPT,
    stream: true,
    stream_options: { include_usage: true },
    ...{ ignore_eos: true },
  });
  let [count, usage] = [0, 0];
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta.content) onChunk(++count);
    usage = chunk.usage?.completion_tokens ?? usage;
  }
  return usage;
}

/**
 * Streams at both fronts, one after the other at each, from before `work` until after it.
 * @returns the tokens of each
 */
async function streamThrough(work: () => Promise<unknown>): Promise<readonly number[]> {
  let begun = 0;
  let isOver = false;
  const answers: number[] = [];
  const streams = ['function', 'edge', 'function', 'edge'].map(async (front) => {
    do answers.push(await streamChat(front, TOKENS, (count) => void (count === 10 && begun++)));
    while (!isOver);
  });
  const working = waitUntil(() => begun >= streams.length, { what: 'streams', timeoutMs: 30_000 })
    .then(work)
    .finally(() => {
      isOver = true;
    });
  await Promise.all([...streams, working]);
  return answers;
}

const isRun = hasMoto() && hasLambdaRuntime() && hasDynamoDb() && hasNatsServer();

describe.runIf(isRun)('production, rehearsed', { timeout: 240_000 }, () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'stator-production-'));
    account = await openAccount();
    await deploy();
    standIn = await openStandIn(stacks, account.url);
    const { secretOf, environmentOf } = standIn;
    cluster = new EcsCluster({
      machine: { folder, imageOf: imageHere, secretOf, environmentOf },
      timeScale: TIME_SCALE,
    });
    const store = { STATOR_KEYS_TABLE: outputOf(stacks, 'KeysTableName'), PATH: process.env.PATH ?? '' };
    const made = await runStator(['keys', 'create', '--name', 'rehearsal', '--json'], {
      ...standIn.credentials(OPERATOR),
      ...store,
    });
    expect(made.stderr).toBe('');
    apiKey = (JSON.parse(made.stdout) as { key: string }).key;
    await cluster.deploy(templates, values);
    runtime = await startFunction();
    for (const front of Object.keys(fronts())) {
      const list = async () => (await openAi(front).models.list()).data.length > 0;
      await waitUntil(list, { what: `the model at the ${front}`, timeoutMs: 30_000, pollMs: 100 });
    }
  }, 300_000);

  afterEach(({ task }) => {
    if (task.result?.state === 'fail') console.error(cluster.events.join('\n'), cluster.output(), runtime.output());
  });

  afterAll(async () => {
    await runtime?.stop();
    await cluster?.close();
    await standIn?.close();
    await account?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('starts its services in the order of their dependencies, each healthy at its first try', () => {
    const at = (event: RegExp): number => cluster.events.findIndex((each) => event.test(each));
    expect(at(/nats1.* is made/i)).toBeGreaterThan(at(/nats0.* is steady/i));
    expect(at(/nats2.* is made/i)).toBeGreaterThan(at(/nats1.* is steady/i));
    expect(at(/Fleet.* is made/)).toBeGreaterThan(at(/nats2.* is steady/i));
    expect(at(/Fleet.* is made/)).toBeGreaterThan(at(/EdgeService.* is steady/));
    for (const { started, plan } of cluster.services) expect([plan.id, started]).toEqual([plan.id, plan.desiredCount]);
  });

  it.each(['function', 'edge'])('answers stock clients at the %s', async (front) => {
    const client = openAi(front);
    expect(await streamChat(front, 24)).toBe(24);
    const whole = await client.chat.completions.create({ model: MODEL, max_tokens: 12, messages: PROMPT });
    expect(whole.usage?.completion_tokens).toBe(12);
    const anthropic = new Anthropic({ baseURL: fronts()[front] ?? '', apiKey });
    const asked = { model: MODEL, max_tokens: 12, messages: PROMPT };
    const streamed = await anthropic.messages.stream(asked).finalMessage();
    expect(streamed.usage.output_tokens).toBe(12);
    expect((await anthropic.messages.create(asked)).usage.output_tokens).toBe(12);
    const refused = await fetch(`${fronts()[front]}/v1/models`);
    expect([refused.status, await refused.json()]).toMatchObject([401, { error: { code: 'invalid_api_key' } }]);
  });

  it('answers clients of KServe at the name of the edge', async () => {
    const client = new KserveClient(cluster.balancer?.grpcAddress ?? '');
    const text = Buffer.from('What are you?').toString('base64');
    const input = { name: 'text_input', datatype: 'BYTES', shape: ['1'], contents: { bytes_contents: [text] } };
    const request = { model_name: MODEL, inputs: [input], parameters: { max_tokens: { int64_param: '8' } } };
    const answer = await client.ask('ModelInfer', [request], [['authorization', `Bearer ${apiKey}`]]);
    expect(answer).toMatchObject({ code: 0, responses: [{ model_name: MODEL }] });
    expect(await client.ask('ModelInfer', [request])).toMatchObject({ code: 16 });
    client.close();
  });

  it('has the resident router place what the function serves', async () => {
    expect(await streamChat('function', 8)).toBe(8);
    await runtime.idle();
    expect(runtime.output()).not.toContain('"RouterFallbacks":1');
  });

  it('goes on with every stream when a worker dies, and replaces it', async () => {
    const workers = cluster.serviceOf('worker');
    const before = workers.started;
    const answers = await streamThrough(async () => {
      await workers.tasks[0]!.kill();
      await cluster.untilSteady();
    });
    expect(answers.filter((tokens) => tokens !== TOKENS)).toEqual([]);
    expect(workers.started).toBe(before + 1);
  });

  it('goes on with the streams of the function when an edge dies, and takes new ones at the other', async () => {
    const edges = cluster.serviceOf('edge');
    const killed = async (): Promise<number> => {
      await edges.tasks[0]!.kill();
      return waitUntil(async () => (await streamChat('edge', 4).catch(() => 0)) === 4 && 4, { timeoutMs: 20_000 });
    };
    expect(await Promise.all([streamChat('function', TOKENS), killed()])).toEqual([TOKENS, 4]);
    await cluster.untilSteady();
  });

  it('cuts no stream of a release of workers, edges and servers', async () => {
    const next = ['worker', 'edge', 'nats'].reduce((all, name) => withRelease(all, name, 'next'), templates);
    const answers = await streamThrough(() => cluster.deploy(next, values));
    expect(answers.filter((tokens) => tokens !== TOKENS)).toEqual([]);
    expect(answers.length).toBeGreaterThan(4);
    for (const { plan } of cluster.services) expect(JSON.stringify(plan.task)).toContain('"RELEASE":"next"');
    expect(cluster.balancer?.refused).toBe(0);
  });

  it('serves on without a zone, and has all of it again when the zone is back', async () => {
    const [zone = ''] = cluster.serviceOf('nats').plan.zones;
    cluster.loseZone(zone);
    const served = async (): Promise<boolean> => {
      const answers = await Promise.allSettled(Object.keys(fronts()).map((front) => streamChat(front, 8)));
      return answers.every((answer) => answer.status === 'fulfilled' && answer.value === 8);
    };
    await cluster.giveUpZone(zone);
    await waitUntil(served, { what: 'both fronts', timeoutMs: 60_000, pollMs: 200 });
    expect(cluster.services.flatMap(({ tasks }) => tasks).map(({ place }) => place.zone)).not.toContain(zone);
    cluster.returnZone(zone);
    await cluster.untilSteady();
    expect(await served()).toBe(true);
  });

  it('asks for nothing that its roles refuse', () => {
    expect(standIn.proxy.refused).toEqual([]);
  });

  it('keeps what lasts when it is destroyed, keys included, and is whole again when it is deployed once more', async () => {
    const { tables, buckets } = keptBy(stacks);
    await cluster.destroy();
    const left = await account.destroy();
    expect(left).toMatchObject({ stacks: ['Stator-Data'], tables, functions: [], roles: [] });
    expect(left.buckets.filter((name) => !isOfLogs(name))).toEqual(buckets);
    await deploy();
    expect(keptBy(stacks)).toEqual({ tables, buckets });
    await cluster.deploy(templates, values);
    for (const front of Object.keys(fronts())) expect(await streamChat(front, 8)).toBe(8);
  });
});
