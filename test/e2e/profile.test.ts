import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runStator, type StatorProcess, useFleet } from '../support/index.ts';

const fleet = useFleet();
const QUICK = ['--isl=128,512', '--osl=8,16', '--concurrency=1,4', '--repeats=2', '--kv-tokens=262144'];

describe('stator profile', () => {
  const folder = mkdtempSync(join(tmpdir(), 'stator-profile-'));
  const output = join(folder, 'measured-worker');
  let local: StatorProcess;
  beforeAll(async () => {
    local = await fleet.local(['--num-workers=1']);
  });
  afterAll(async () => {
    await local.kill();
    rmSync(folder, { recursive: true, force: true });
  });

  const profile = (...more: readonly string[]) =>
    runStator(['profile', `--url=${local.url}/v1`, `--output=${output}`, ...QUICK, ...more]);
  const read = (name: string) => JSON.parse(readFileSync(join(output, name), 'utf8'));

  it('writes the tables, and says what the worker serves and which flag passes them to the planner', async () => {
    const { code, stdout } = await profile('--itl-ms=1000', '--ttft-ms=5000');
    expect(code).toBe(0);
    expect(stdout).toMatch(/--planner-config '\{"rate_requests_per_second": [\d.]+\}'/);
    const { prefill_isl: lengths, prefill_ttft: times } = read('prefill_raw_data.json');
    expect(lengths).toEqual([128, 512]);
    for (const ms of times) expect(ms).toBeGreaterThan(0);
    const decode = read('decode_raw_data.json');
    expect(decode.y_context_length).toEqual([132, 132, 136, 136, 516, 516, 520, 520]);
    expect(decode.x_kv_usage[7]).toBeCloseTo((4 * 520) / 262_144, 9);
    // The mock engine takes at least 5.7 ms for a token of anybody; tokens behind a pause of the machine come together.
    const perToken = (decode.z_itl as number[]).toSorted((a, b) => a - b);
    expect(perToken[0]).toBeGreaterThan(0);
    expect(perToken[perToken.length >> 1]).toBeGreaterThan(4);
  });

  it('measures nothing twice', async () => {
    const before = readFileSync(join(output, 'measured.json'), 'utf8');
    const { code } = await profile();
    expect(code).toBe(0);
    expect(readFileSync(join(output, 'measured.json'), 'utf8')).toBe(before);
  });

  it('goes on where a run was stopped', async () => {
    const known = read('measured.json');
    const kept = { ...known, decode: known.decode.slice(0, 1), prefill: [{ isl: 128, ttftMs: 77 }] };
    writeFileSync(join(output, 'measured.json'), JSON.stringify(kept));
    expect((await profile()).code).toBe(0);
    expect(read('measured.json').prefill).toMatchObject([{ isl: 128, ttftMs: 77 }, { isl: 512 }]);
    expect(read('measured.json').decode).toHaveLength(8);
  });

  it('makes tables that the simulator runs on', async () => {
    const { code, stdout } = await runStator([
      'simulate',
      '--workload=steady',
      '--request-count=20',
      '--workers=1',
      `--planner-profile-data=${output}`,
      '--json',
    ]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout).requests).toBe(20);
  });

  it.each([
    [['--kv-tokens=0'], '--kv-tokens "0": allowed: a whole number from 1 to'],
    [['--isl=128,x'], '--isl "x": allowed: a whole number from 1 to 1000000'],
    [['--model=nobody', '--output=node_modules/.cache/stator-test/no-profile'], 'answers with status 404'],
    [['--repeats=3'], 'is of another measurement'],
    [['--nonsense'], "Unknown option '--nonsense'"],
  ])('refuses %j by name', async (flags, message) => {
    const { code, stderr } = await profile(...flags);
    expect(stderr).toContain(message);
    expect(code).not.toBe(0);
  });
});
