import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  freePort,
  openChat,
  postJson,
  type SpawnedProcess,
  type StatorProcess,
  spawnNode,
  useFleet,
  waitUntil,
} from '../support/index.ts';
import { MOVED_BY, MovedMetrics, NEVER_MOVED } from '../support/moved-metrics.ts';

const CODE_WORKER = fileURLToPath(new URL('code-worker.mjs', import.meta.url));
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const MODEL = 'stator-mini';
/** Fast to tell what happens. */
const QUICK = {
  STATOR_LOAD_REPORT_INTERVAL_MS: '100',
  STATOR_EVENT_ROLLUP_INTERVAL_MS: '500',
  STATOR_STREAM_STALL_SECS: '1',
  STATOR_ENGINE_WARM_UP_SECS: '0',
  STATOR_RESPONSE_STORE_MAX_MB: '1',
};
const PLAN = {
  rate_requests_per_second: 2,
  rate_window_seconds: 5,
  load_adjustment_interval_seconds: 1,
  min_endpoint: 1,
  max_gpu_budget: 3,
  start_seconds: 1,
};
/** A class of requests of which one may wait for a worker. */
const POLICIES = `
default_policy_family: chat
uncached_isl_buckets: [{ min_tokens: 0, bucket: all }]
policy_classes:
  - { name: chat, policy_family: chat, cache_bucket: all, quantum: 1024 }
  - { name: batch, quantum: 256, prefill_busy_threshold: 0, request_queue_limit_per_worker: 1 }
`;
const STORY = 'The river runs down to the sea. '.repeat(40);

const fleet = useFleet(QUICK);
const metrics = new MovedMetrics();
/** Last page of each process by what it is. */
const pages = new Map<string, string>();
const heads = new Map<string, string>();
let frontend: StatorProcess;
let apart: StatorProcess;
let policed: StatorProcess;
let workers: readonly StatorProcess[];
let prefill: StatorProcess;
let code: SpawnedProcess;

/** Reads the pages of all processes that are there. */
async function look(): Promise<void> {
  await Promise.all(
    [...heads].map(async ([name, url]) => {
      const page = await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(1000) }).then(
        (response) => (response.ok ? response.text() : ''),
        () => '', // not yet, no more, or frozen
      );
      if (page === '') return;
      pages.set(name, page);
      metrics.take(page);
    }),
  );
}

async function untilMoved(...names: readonly string[]): Promise<void> {
  const missing = (): readonly string[] => names.filter((name) => !metrics.hasMoved(name));
  for (const name of names) {
    await waitUntil(() => look().then(() => metrics.hasMoved(name)), { timeoutMs: 15_000, pollMs: 50, what: name });
  }
  expect(missing()).toEqual([]);
}

const chatOf = (content: string, extra: object = {}) => ({
  model: MODEL,
  max_tokens: 8,
  ignore_eos: true,
  messages: [{ role: 'user', content }],
  ...extra,
});

/** Status of a request, once its answer is read. */
async function post(
  path: string,
  body: unknown,
  { url } = frontend,
  headers: Record<string, string> = {},
): Promise<number> {
  const response = await postJson(`${url}${path}`, body, { headers });
  await response.text();
  return response.status;
}

const chat = (
  content: string,
  extra: object = {},
  to?: StatorProcess,
  headers?: Record<string, string>,
): Promise<number> => post('/v1/chat/completions', chatOf(content, extra), to, headers);
const opened = async (content: string, tokens: number) => {
  const stream = await openChat(frontend.url, chatOf(content, { max_tokens: tokens }));
  await stream.untilDeltas(1);
  return stream;
};

beforeAll(async () => {
  const [plannerPort, indexerPort, grpcPort, codePort] = await Promise.all([
    freePort(),
    freePort(),
    freePort(),
    freePort(),
  ]);
  const shared = { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: fleet.fileKv };
  const of = (name: string): string => `--namespace=${name}`;
  const policies = join(fleet.temporary, 'policies.yaml');
  writeFileSync(policies, POLICIES);
  const hold = ['--hold-timeout=1', '--hold-max=1'];
  const moves = ['--migration-limit=3', '--migration-max-seq-len=600', '--response-store=on'];
  const kv = '--router-mode=kv';
  code = spawnNode([CODE_WORKER, '--discovery-backend=file', of('one')], {
    cwd: ROOT,
    env: {
      DYN_FILE_KV: fleet.fileKv,
      DYN_TCP_RPC_HOST: '127.0.0.1',
      DYN_SYSTEM_HOST: '127.0.0.1',
      DYN_SYSTEM_PORT: `${codePort}`,
    },
  });
  const plan = [`--planner-config=${JSON.stringify(PLAN)}`, `--planner-dir=${join(fleet.temporary, 'planner')}`];
  fleet.spawn(
    ['planner', of('one'), '--planner-connector=virtual', `--planner-metrics-port=${plannerPort}`, ...plan],
    shared,
  );
  fleet.spawn(['router', '--service=indexer', '--service-host=127.0.0.1', `--service-port=${indexerPort}`], shared);
  fleet.spawn(['grpc', '--http-port=0', '--http-host=127.0.0.1', of('one'), `--grpc-metrics-port=${grpcPort}`], shared);
  const limits = { DYN_ENGINE_REQUEST_LIMIT: '1', DYN_DYNAMO_REQUEST_QUEUE_LIMIT: '2' };
  let decode: StatorProcess;
  let limited: StatorProcess;
  let second: StatorProcess;
  [frontend, apart, policed, workers, prefill, decode, limited, second] = await Promise.all([
    fleet.frontend([kv, of('one'), '--grpc-port=0', ...hold, ...moves]),
    fleet.frontend([kv, of('apart'), '--decode-fallback']),
    fleet.frontend([kv, of('policed'), `--router-policy-config=${policies}`]),
    Promise.all(['first', 'second'].map(() => fleet.worker([of('one'), '--num-gpu-blocks-override=600']))),
    fleet.worker([of('apart'), '--disaggregation-mode=prefill']),
    fleet.worker([of('apart'), '--disaggregation-mode=decode']),
    fleet.worker([of('policed'), '--speedup-ratio=0.1', '--decode-speedup-ratio=50'], limits),
    fleet.worker([of('other')]),
  ]);
  const all = {
    frontend,
    apart,
    policed,
    prefill,
    decode,
    limited,
    second,
    worker: workers[0]!,
    'another worker': workers[1]!,
  };
  for (const [name, { url }] of Object.entries(all)) heads.set(name, url);
  const ports = { planner: plannerPort, router: indexerPort, 'gRPC container': grpcPort, 'worker from code': codePort };
  for (const [name, port] of Object.entries(ports)) heads.set(name, `http://127.0.0.1:${port}`);
  await fleet.untilWorkers(frontend, 2);
  await fleet.untilWorkers(frontend, 1, 'made');
  await fleet.untilWorkers(apart, 2);
  await fleet.untilWorkers(policed, 1);
  await waitUntil(() => look().then(() => heads.size === pages.size), { timeoutMs: 30_000, what: 'a page of each' });
}, 120_000);
afterAll(() => code.kill());

describe('what moves metrics', () => {
  it('is requests of every kind', async () => {
    for (let turn = 0; turn < 3; turn++) await chat(STORY);
    await chat(STORY, { tools: [{ type: 'web_search' }] });
    await chat('too much', { model: 'made' });
    await chat('hi', { model: 'nobody' });
    await chat(STORY, {}, apart);
    await post('/v1/embeddings', { model: 'made', input: 'a' });
    const long = { model: 'made', input: 'x '.repeat(40_000), store: true, no_such_key: 1 };
    for (let turn = 0; turn < 16; turn++) await post('/v1/responses', long);
    await chat('hi', { stop: Array.from({ length: 2000 }, (_, at) => `s${at}`) });
    await untilMoved('stator_responses_evicted_total', 'dynamo_component_errors_total');
  });

  it('is more of them than workers take', async () => {
    const crowd = Array.from({ length: 30 }, () => chat(STORY.repeat(2)));
    await untilMoved('dynamo_frontend_active_requests', 'dynamo_frontend_stage_requests');
    await Promise.all(crowd);
    await untilMoved('dynamo_component_router_non_max_overlap_selections_total');
    const batch = { 'x-dynamo-meta-policy-class': 'batch' };
    await chat(STORY, {}, policed);
    const queue = Array.from({ length: 6 }, (_, at) => chat(`${STORY} ${at} ${STORY.repeat(4)}`, {}, policed, batch));
    await untilMoved(
      'dynamo_frontend_router_queue_pending_requests',
      'dynamo_frontend_router_admission_rejected_total',
    );
    await Promise.all(queue);
    const behind = Array.from({ length: 6 }, () => chat(STORY, { max_tokens: 200 }, policed));
    await untilMoved('dynamo_request_queue', 'dynamo_rejection_request_total');
    await Promise.all(behind);
    await post('/busy_threshold', { model: MODEL, active_decode_blocks_threshold: 0 });
    const busy = await opened('go on', 4000);
    await waitUntil(async () => (await chat('hi')) !== 200, { what: 'a refusal' });
    busy.leave();
    await post('/busy_threshold', { model: MODEL, active_decode_blocks_threshold: 1 });
    await untilMoved('dynamo_frontend_model_rejection_total');
  });

  it('is an indexer with a registered worker', async () => {
    const indexer = { url: heads.get('router') ?? '' } as StatorProcess;
    const worker = { instance_id: 1, endpoint: 'tcp://127.0.0.1:5557', model_name: 'm', block_size: 16 };
    expect(await post('/register', worker, indexer)).toBe(201);
    await post('/register', worker, indexer); // again: refused
    await untilMoved('dynamo_kvindexer_errors_total', 'dynamo_kvindexer_workers', 'dynamo_kvindexer_listeners');
  });

  it('is clients that leave, and workers that die, fall silent and leave', { timeout: 90_000 }, async () => {
    (await opened('go on', 4000)).leave();
    await untilMoved('dynamo_frontend_model_cancellation_total', 'dynamo_component_cancellation_total');
    prefill.signal('SIGTERM');
    const streams = await Promise.all(
      ['a', 'b', 'c', 'd', 'e', 'f'].flatMap((text) => [opened(text, 300), opened(text + STORY.repeat(3), 300)]),
    );
    await workers[0]!.kill();
    await Promise.allSettled(streams.map(({ answer }) => answer));
    await untilMoved(
      'dynamo_frontend_model_migration_total',
      'dynamo_frontend_model_migration_duration_seconds',
      'dynamo_frontend_model_migration_max_seq_len_exceeded_total',
    );
    await prefill.exited;
    await chat(`alone ${STORY}`, {}, apart);
    const silent = await opened('go on', 4000);
    workers[1]!.signal('SIGSTOP');
    await untilMoved('stator_frontend_worker_stalls_total');
    workers[1]!.signal('SIGCONT');
    await untilMoved('stator_frontend_canaries_total');
    silent.leave();
    const draining = await opened('go on', 200);
    workers[1]!.signal('SIGTERM');
    await Promise.allSettled([draining.answer]);
    await workers[1]!.exited;
    await fleet.untilWorkers(frontend, 0);
    const held = [chat('hi'), chat('hi')];
    await untilMoved('stator_frontend_held_requests', 'stator_held_requests', 'stator_frontend_hold_refused_total');
    await Promise.all(held);
    await look();
  });

  it('moves all that are registered, except those of other suites, which look', () => {
    const elsewhere = new Set([...Object.values(MOVED_BY).flat(), ...Object.keys(NEVER_MOVED)]);
    expect(metrics.unmoved.filter((name) => !elsewhere.has(name))).toEqual([]);
    expect(metrics.count).toBeGreaterThan(170);
    for (const [suite, names] of Object.entries(MOVED_BY)) {
      const text = readFileSync(join(ROOT, suite), 'utf8');
      expect(
        names.filter((name) => !text.includes(name)),
        suite,
      ).toEqual([]);
    }
  });
});

/** Names with findings that stay: they are Dynamo's, and dashboards ask for them. */
const BY_DYNAMO: ReadonlySet<string> = new Set([
  'dynamo_component_kv_cache_event_warnings',
  'dynamo_component_kv_cache_events_applied',
  'dynamo_frontend_detokenize_token_count',
  'dynamo_frontend_detokenize_total_us',
  'dynamo_frontend_tokenizer_latency_ms',
  'dynamo_kvrouter_kv_cache_event_warnings',
  'dynamo_kvrouter_kv_cache_events_applied',
  'dynamo_planner_estimated_itl_ms',
  'dynamo_planner_estimated_ttft_ms',
  'dynamo_planner_gpu_hours',
  'dynamo_planner_observed_itl_ms',
  'dynamo_planner_observed_ttft_ms',
  'dynamo_planner_sla_target_itl_ms',
  'dynamo_planner_sla_target_ttft_ms',
  'dynamo_router_overhead_block_hashing_ms',
  'dynamo_router_overhead_indexer_find_matches_ms',
  'dynamo_router_overhead_scheduling_ms',
  'dynamo_router_overhead_seq_hashing_ms',
  'dynamo_router_overhead_shared_cache_query_ms',
  'dynamo_router_overhead_total_ms',
]);

describe.runIf(process.env.STATOR_TEST_PROMTOOL_BIN)('promtool', () => {
  const check = (page: string): readonly string[] => {
    const { stdout, stderr, error } = spawnSync(process.env.STATOR_TEST_PROMTOOL_BIN ?? '', ['check', 'metrics'], {
      input: page,
      encoding: 'utf8',
    });
    if (error !== undefined) throw error;
    return `${stdout}${stderr}`.split('\n').filter((line) => line !== '');
  };

  it.each(['frontend', 'worker', 'prefill', 'router', 'planner', 'gRPC container', 'worker from code'])(
    'finds nothing on the page of a %s but names of Dynamo that stay',
    (name) => {
      const page = pages.get(name) ?? '';
      expect(page).toMatch(/^dynamo_\w+/m);
      expect(check(page).filter((finding) => !BY_DYNAMO.has(finding.split(' ', 1)[0] ?? ''))).toEqual([]);
    },
  );

  it('finds what is wrong', () => {
    expect(check('# HELP a_ms x\n# TYPE a_ms gauge\na_ms 1\n')).toHaveLength(1);
    expect(check('a{ 1\n').join()).toMatch(/error/);
  });
});
