import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { runCommandLine } from '../../../functions/cli/run-command.ts';

const WHOLE_TRACE = fileURLToPath(new URL('../../fixtures/simulate/mooncake-synthetic-1500.jsonl.gz', import.meta.url));
const LLAMA = fileURLToPath(new URL('../../fixtures/router/models/llama-3.1-8b', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'stator-simulate-'));
/** The first requests of it. */
const TRACE = join(folder, 'trace.jsonl');
const ZIPPED_TRACE = join(folder, 'trace.jsonl.gz');
vi.setConfig({ testTimeout: 60_000 }); // up to five simulations in a test, one after the other

beforeAll(() => {
  const lines = gunzipSync(readFileSync(WHOLE_TRACE)).toString().split('\n');
  const text = `${lines.slice(0, 400).join('\n')}\n`;
  writeFileSync(TRACE, text);
  writeFileSync(ZIPPED_TRACE, gzipSync(text));
});

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

async function simulate(...argv: readonly string[]) {
  const said = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      said[name] += text;
      return true;
    });
  }
  const typed = process.argv;
  process.argv = [...typed.slice(0, 2), 'simulate', ...argv];
  try {
    const status = await runCommandLine(['simulate', ...argv], {});
    return { status, ...said };
  } finally {
    process.argv = typed;
    vi.restoreAllMocks();
  }
}

async function figures(...argv: readonly string[]) {
  const { status, stdout, stderr } = await simulate(...argv, '--json');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return JSON.parse(stdout);
}

/** What a run that must not start says, besides warnings. */
async function refusal(...argv: readonly string[]): Promise<string> {
  const { status, stdout, stderr } = await simulate(...argv);
  expect(stdout).toBe('');
  expect(status).not.toBe(0);
  return stderr.replace(/^stator: warning: .*\n/gm, '');
}

function write(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

describe('stator simulate', () => {
  it('replays a trace, zipped or not, and prints the same again except for the time it took', async () => {
    const flags = ['--workers=4', '--router-mode=kv', '--seed=7'];
    const { wallMs, ...first } = await figures('--trace', ZIPPED_TRACE, ...flags);
    const { wallMs: _, ...again } = await figures('--trace', ZIPPED_TRACE, ...flags);
    expect(wallMs).toBeGreaterThan(0);
    expect(again).toEqual(first);
    expect(first).toMatchObject({ requests: 400, about: { workers: 4, 'router-mode': 'kv', seed: 7 } });
    const line = '{"timestamp":0,"input_length":600,"output_length":4,"hash_ids":[1,2]}\n';
    expect(await figures('--trace', write('plain.jsonl', line.repeat(3)))).toMatchObject({ requests: 3 });
  });

  it('prints a table for people', async () => {
    const { status, stdout } = await simulate('--trace', TRACE, '--workers=4');
    expect(status).toBe(0);
    expect(stdout).toContain('workload trace.jsonl, requests 400, workers 4, router-mode round-robin');
  });

  it('runs every combination of its sweeps', async () => {
    const { runs } = await figures(
      '--trace',
      TRACE,
      '--sweep',
      'workers=2,4',
      '--sweep=router-mode=round-robin,least_loaded',
    );
    expect(runs.map(({ swept }: { swept: unknown }) => swept)).toEqual([
      { workers: '2', 'router-mode': 'round-robin' },
      { workers: '2', 'router-mode': 'least_loaded' },
      { workers: '4', 'router-mode': 'round-robin' },
      { workers: '4', 'router-mode': 'least_loaded' },
    ]);
    expect(runs[0].ttftMs.mean).toBeGreaterThan(runs[2].ttftMs.mean);
  });

  it('writes a page or JSON as a report', async () => {
    const page = join(folder, 'report.html');
    const json = join(folder, 'report.json');
    const written = await simulate('--trace', TRACE, '--report', page);
    expect(written).toMatchObject({ status: 0, stderr: `stator: wrote the report to ${page}\n` });
    expect(readFileSync(page, 'utf8')).toContain(`<pre>stator simulate --trace ${TRACE} --report ${page}</pre>`);
    expect((await simulate('--trace', TRACE, '--report', json)).status).toBe(0);
    expect(readFileSync(page, 'utf8')).toMatch(/^<!doctype html>[\s\S]*<svg /);
    expect(JSON.parse(readFileSync(json, 'utf8')).curves.ranks).toHaveLength(4);
  });

  it.each(['steady', 'poisson', 'bursts', 'sessions'])('makes a %s workload up', async (workload) => {
    const result = await figures(
      '--workload',
      workload,
      '--request-count=40',
      '--request-rate=8',
      '--input-tokens=700',
    );
    expect(result).toMatchObject({ requests: workload === 'sessions' ? 200 : 40, about: { workload } });
  });

  it.each(['agents', 'tenants', 'retrieval', 'chats'])('makes a workload of %s up', async (workload) => {
    const { requests, refused, hitCeiling } = await figures('--workload', workload, '--request-count=40', '--load=0.5');
    expect({ requests, refused }).toEqual({ requests: workload === 'chats' ? 120 : 40, refused: 0 });
    expect(hitCeiling).toBeGreaterThan(0);
  });

  it('lets requests arrive at the asked share of the capacity', async () => {
    const tenants = ['--workload=tenants', '--request-count=200', '--router-mode=kv'];
    const [low, high] = [await figures(...tenants, '--load=0.3'), await figures(...tenants, '--load=1.2')];
    expect(high.about['requests a second'] / low.about['requests a second']).toBeCloseTo(4, 2);
    expect(high.ttftMs.mean).toBeGreaterThan(low.ttftMs.mean);
    const fast = await figures(...tenants, '--load=0.3', '--worker-speed=2');
    expect(fast.about['requests a second'] / low.about['requests a second']).toBeCloseTo(2, 2);
  });

  it('shows the means over several seeds', async () => {
    const tenants = ['--workload=tenants', '--request-count=60', '--router-mode=kv'];
    const runs = [await figures(...tenants, '--seed=4'), await figures(...tenants, '--seed=5')];
    const both = await figures(...tenants, '--seed=4', '--seeds=2');
    const [one, other] = runs.map(({ ttftMs }) => ttftMs.mean);
    expect(both.ttftMs.mean).toBeCloseTo((one + other) / 2, 9);
    expect(both.seeds).toMatchObject({ count: 2, range: { ttftMean: expect.any(Number) } });
    expect(both.seeds.range.ttftMean).toBeCloseTo((2 * Math.abs(one - other)) / (one + other), 9);
    expect((await simulate(...tenants, '--seeds=2')).stdout).toMatch(/^seeds +2, with a range of TTFT mean \d+/m);
  });

  it('searches the settings of the formula of Dynamo', async () => {
    const busy = ['--trace', TRACE, '--router-mode=kv', '--load=0.8', '--tune', '--tune-settings=4'];
    const { wallMs, ...first } = await figures(...busy);
    expect(first.dynamo).toMatchObject({ tried: 4, best: { e2eMean: { setting: { 'router-cost-model': 'dynamo' } } } });
    expect(first.dynamo.best.ttftMean.value).toBeLessThanOrEqual(first.dynamo.defaults.ttftMean);
    expect(first.about).toMatchObject({ workload: 'trace.jsonl', load: 0.8 });
    const { wallMs: _, ...again } = await figures(...busy);
    expect(again).toEqual(first);
    expect((await simulate(...busy)).stdout).toMatch(/^TTFT p99 ms +\d+ +\d+/m);
  });

  it('takes the settings of the mock engine', async () => {
    const slow = await figures('--trace', TRACE, '--max-num-batched-tokens=1024');
    const small = await figures('--trace', TRACE, '--num-gpu-blocks=4000');
    const none = await figures('--trace', TRACE, '--no-enable-prefix-caching');
    const plain = await figures('--trace', TRACE);
    expect(slow.ttftMs.mean).toBeGreaterThan(plain.ttftMs.mean);
    expect(small.hitRate).toBeLessThan(plain.hitRate);
    expect(none.hitRate).toBe(0);
    expect((await figures('--trace', TRACE, '--max-model-len=20000')).refused).toBeGreaterThan(0);
  });

  it('holds requests back for the stator model, unless the queue is off', async () => {
    const busy = [
      '--trace',
      TRACE,
      '--workers=2',
      '--router-mode=kv',
      '--router-cost-model=stator',
      '--arrival-speedup=2',
    ];
    const gated = await simulate(...busy, '--json');
    const open = await simulate(...busy, '--router-queue-threshold=None', '--json');
    expect(JSON.parse(gated.stdout).queueMs.mean).toBeGreaterThan(0);
    expect(JSON.parse(open.stdout).queueMs.mean).toBe(0);
  });
});

describe('stator simulate with predicted prefills', () => {
  const busy = ['--trace', TRACE, '--mode=kv', '--arrival-speedup=3'];
  const aic = [
    '--router-prefill-load-model=aic',
    '--aic-backend=vllm',
    '--aic-system=h100_sxm',
    `--aic-model-path=${LLAMA}`,
  ];

  it('changes what the router thinks, by the formula that goes by it, and not the time of the engines', async () => {
    const [plain, predicted] = [
      await figures(...busy, '--workers=4', '--cost-model=dynamo'),
      await figures(...busy, '--workers=4', ...aic),
    ];
    expect(predicted.about['cost-model']).toBe('dynamo');
    expect(predicted.ttftMs).not.toEqual(plain.ttftMs);
    const alone = ['--workers=1', '--cost-model=dynamo', '--router-queue-threshold=None'];
    expect((await figures(...busy, ...alone, ...aic)).ttftMs).toEqual((await figures(...busy, ...alone)).ttftMs);
  });

  it('refuses what the estimate does not know', async () => {
    expect(await refusal(...busy, ...aic, '--aic-system=h100')).toMatch(
      /^stator: --aic-system "h100" is not known; allowed: a100_sxm, /,
    );
    expect(await refusal(...busy, ...aic, '--aic-model-path=/nowhere')).toBe(
      'stator: --aic-model-path "/nowhere": no such folder, and no such model in the Hugging Face cache of this machine\n',
    );
    expect(await refusal(...busy, ...aic, `--aic-model-path=${folder}`)).toMatch(/its config.json cannot be read: /);
    expect(await refusal(...busy, ...aic, '--aic-moe-ep-size=2')).toContain(
      '--aic-moe-ep-size is for models with experts',
    );
  });
});

describe('stator simulate refuses', () => {
  it('a missing trace file, naming it', async () => {
    expect(await refusal('--trace=/nowhere/trace.jsonl')).toBe(
      'stator: --trace "/nowhere/trace.jsonl": no such file; allowed: an existing Mooncake JSONL file, also gzipped\n',
    );
  });

  it('a bad line, naming file, line and field', async () => {
    const path = write(
      'bad.jsonl',
      '{"timestamp":0,"input_length":5,"output_length":1,"hash_ids":[1]}\n{"timestamp":"x"}\n',
    );
    expect(await refusal('--trace', path)).toBe(
      `stator: --trace ${path}, line 2: field "timestamp" must be a number from 0 to 9007199254740991, got "x"\n`,
    );
  });

  it('a file that is not a trace', async () => {
    expect(await refusal('--trace', write('text.jsonl', 'hello\n'))).toContain('line 1: is not JSON: hello');
  });

  it.each([
    [['--sweep=workerz=1,2'], '--sweep "workerz=1,2": unknown flag --workerz; did you mean --workers?'],
    [['--sweep=workers'], '--sweep "workers": allowed: name=v1,v2,...'],
    [['--sweep=workers=1,'], '--sweep "workers=1,": allowed: name=v1,v2,...'],
    [['--sweep=workers=1', '--sweep=num-workers=2'], '--sweep num-workers is given twice'],
    [['--sweep=workers=0,2'], '--workers "0": out of range; allowed: int, >= 1'],
    [
      [`--sweep=workers=${Array.from({ length: 300 }, (_, at) => at + 1).join()}`],
      '--sweep asks for 300 runs; allowed: up to 256',
    ],
    [['--report=out.pdf'], '--report "out.pdf": its name must end in .html or .json'],
    [['--block-size=100'], '--trace-block-size 512 must be a multiple of --block-size 100: an id names whole blocks'],
    [['--workload=poisson'], '--trace and --workload exclude each other'],
  ])('%j', async (argv, message) => {
    expect(await refusal('--trace', TRACE, ...argv)).toBe(`stator: ${message}\n`);
  });

  it('a policy file that is not one, and settings of the router that exclude each other', async () => {
    const path = write('policy.yaml', 'policy_classes: 5\n');
    expect(await refusal('--trace', TRACE, '--router-policy-config', path)).toMatch(
      /--router-policy-config: policy_classes: /,
    );
    expect(await refusal('--trace', TRACE, '--cost-model=stator', '--no-router-track-prefill-tokens')).toMatch(
      /router_cost_model stator needs router_track_prefill_tokens\n$/,
    );
  });

  it('to run without a workload', async () => {
    expect(await refusal()).toBe(
      'stator: nothing to simulate: give --trace FILE, or --workload steady, poisson, bursts, sessions, agents, tenants, retrieval or chats\n',
    );
  });

  it.each([
    [
      ['--load=1', '--request-rate=3'],
      '--load and --request-rate exclude each other: the load decides when requests arrive',
    ],
    [['--load=1', '--replay-concurrency=3'], '--load and --replay-concurrency exclude each other'],
    [['--load=0'], '--load "0": out of range'],
    [['--load=1', '--request-count=1'], '--load needs requests that arrive at different times: give more of them'],
    [['--load=1', '--planner'], '--load and --planner exclude each other'],
    [['--seeds=2', '--planner'], '--seeds can only be 1 with --planner'],
    [['--worker-speed=1,0'], '--worker-speed'],
    [['--tune'], '--tune compares cost models: it needs --router-mode kv'],
    [['--tune', '--router-mode=kv', '--sweep=workers=1,2'], '--tune excludes --planner, --sweep and --report'],
    [['--sweep=tune=true'], '--sweep "tune=true": unknown flag --tune'],
  ])('of a synthetic workload: %j', async (argv, message) => {
    expect(await refusal('--workload=poisson', ...argv)).toContain(`stator: ${message}`);
  });
});

describe('stator simulate with engines of one kind or two', () => {
  it('simulates prefill and decode workers, each with settings of its own', async () => {
    const pools = ['--num-prefill-workers=2', '--num-decode-workers=3', '--mode=kv'];
    const fleet = ['--workload=poisson', '--request-count=200', '--request-rate=20', ...pools];
    const { disaggregation, requests, about } = await figures(...fleet);
    expect(about).toMatchObject({ 'prefill workers': 2, 'decode workers': 3 });
    expect(disaggregation.prefill).toMatchObject({ ranks: 2, requests, outputTokens: requests });
    expect(disaggregation.decode).toMatchObject({ ranks: 3, requests, outputTokens: 256 * requests });
    expect(disaggregation.transferMs.mean).toBeCloseTo((2048 * 131_072) / 64e6, 6);
    const args = write('prefill.json', '{"worker_type": "prefill", "dp_size": 2, "kv_bytes_per_token": 64000}');
    const own = await figures(
      ...fleet,
      `--prefill-engine-args=${args}`,
      '--decode-engine-args={"num_gpu_blocks": 4096}',
    );
    expect(own.disaggregation.prefill.ranks).toBe(4);
    expect(own.disaggregation.transferMs.mean).toBeCloseTo(2.048, 6);
    expect((await simulate(...fleet)).stdout).toMatch(/^prefill pool +2 ranks, .* busy/m);
  });

  it('refuses pools that cannot be', async () => {
    const pools = ['--workload=poisson', '--num-prefill-workers=1', '--num-decode-workers=1'];
    expect(await refusal('--workload=poisson', '--num-prefill-workers=1')).toContain('needs --num-decode-workers');
    expect(await refusal(...pools, '--workers=2')).toContain(
      '--num-prefill-workers and --num-workers exclude each other',
    );
    expect(await refusal(...pools, '--prefill-engine-args={"worker_type":"decode"}')).toContain(
      'worker_type must be prefill',
    );
    expect(await refusal(...pools, '--prefill-engine-args={"block_size":32}')).toContain('blocks cross as they are');
    expect(await refusal(...pools, '--decode-engine-args={"nonsense":1}')).toContain(
      '--decode-engine-args: unknown key "nonsense"',
    );
    expect(await refusal('--workload=poisson', '--decode-engine-args={}')).toContain('needs --num-prefill-workers');
  });

  it('reads mocker keys and measured times', async () => {
    const fleet = ['--workload=poisson', '--request-count=20', '--workers=1'];
    const tables = join(folder, 'profile');
    mkdirSync(tables);
    writeFileSync(join(tables, 'prefill_raw_data.json'), '{"prefill_isl": [0, 1000], "prefill_ttft": [0, 500]}');
    const decode = { x_kv_usage: [0, 1], y_context_length: [100, 100], z_itl: [20, 20], max_kv_tokens: 1000 };
    writeFileSync(join(tables, 'decode_raw_data.json'), JSON.stringify(decode));
    const measured = await figures(...fleet, '--request-rate=0.1', `--planner-profile-data=${tables}`);
    expect(measured.itlMs.p50).toBeCloseTo(20, 0);
    expect(measured.ttftMs.p50).toBeCloseTo(1024, 6);
    expect(await refusal(...fleet, `--planner-profile-data=${folder}`)).toContain('prefill_raw_data.json');
    const args = write('args.json', '{"num_gpu_blocks": 4}');
    expect(await simulate(...fleet, '--num-gpu-blocks=4096', `--extra-engine-args=${args}`)).toMatchObject({
      stderr: expect.stringContaining('overrides --num-gpu-blocks'),
      stdout: expect.stringContaining('20 refused'),
    });
  });
});
