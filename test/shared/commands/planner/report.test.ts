import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { reportPlanner } from '../../../../shared/commands/planner-report.ts';
import { DynamoDbPlannerStore, FilePlannerStore, type PlannerStore } from '../../../../shared/planner/index.ts';
import { createTable, type DynamoDbServer, hasDynamoDb, startDynamoDb } from '../../../support/index.ts';
import { decisionOf, sampleOf } from '../../../support/planner/fleet-story.ts';

const NEVER = new AbortController().signal;
const HOUR_MS = 3_600_000;

/** Writes a record each minute for some hours before now, and a decision each hour. */
async function fill(store: PlannerStore, group: string, hours: number, nowMs: number): Promise<void> {
  for (let minute = 0; minute < 60 * hours; minute++) {
    const atMs = nowMs - 60_000 * (60 * hours - 1 - minute);
    const sample = sampleOf({ started: 60, options: { decode: { workers: { serving: 60 }, gpuSeconds: 60 } } });
    const tick = { atMs, reason: 'no change', figures: {}, sample };
    const decision = minute % 60 === 0 ? decisionOf(minute / 60, atMs) : undefined;
    await store.commit(group, { version: minute, state: '', decision, tick }, NEVER);
  }
}

function factOf(html: string, name: string): string | undefined {
  return new RegExp(`<dt>${name.replace('$', '\\$')}</dt><dd>([^<]*)</dd>`).exec(html)?.[1];
}

describe('stator planner report', () => {
  let folder: string;
  const nowMs = Date.now(); // the store forgets what is older than a week
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stator-report-'));
    await fill(new FilePlannerStore(folder), 'ns#m', 2, nowMs);
  });
  afterEach(() => rm(folder, { recursive: true }));
  const report = (...flags: readonly string[]): Promise<string> =>
    reportPlanner([...flags, `--planner-dir=${folder}`], {}, nowMs);

  it('goes back as far as it is asked to', async () => {
    const six = await report();
    expect(factOf(six, 'requests')).toBe('7,200 (1.00 a second)');
    expect(factOf(six, 'recorded')).toBe('33 % of the time');
    const half = await report('--since', '30m');
    expect(factOf(half, 'requests')).toBe('1,800 (1.00 a second)');
    expect(factOf(half, 'recorded')).toBe('100 % of the time');
    expect(factOf(half, 'decisions')).toBe('0');
    expect(factOf(await report('--since=90s'), 'requests')).toBe('90 (1.00 a second)');
  });

  it('writes the page to a file, and says what is in it', async () => {
    const path = join(folder, 'page.html');
    expect(await report(`--output=${path}`)).toBe(`${path}: ns#m, 120 records and 2 decisions\n`);
    expect(await readFile(path, 'utf8')).toBe(await report());
  });

  it('counts dollars if the price of a GPU is given', async () => {
    expect(factOf(await report(), 'US$')).toBeUndefined();
    expect(factOf(await report('--gpu-price', '2.5'), 'US$')).toBe('5.00');
    expect(factOf(await report('--gpu-price=decode=3'), 'US$')).toBe('6.00');
  });

  it('has the same in JSON', async () => {
    const json = JSON.parse(await report('--json', '--since=5m')) as { samples: object[] };
    expect(json).toMatchObject({ namespace: 'ns', model: 'm', until: new Date(nowMs).toISOString(), decisions: [] });
    expect(json.samples).toHaveLength(6);
    expect(JSON.parse(await report('--json', '--gpu-price=decode=3'))).toMatchObject({ gpu_prices: { decode: 3 } });
  });

  it('says that records of an earlier release have no numbers', async () => {
    const store = new FilePlannerStore(folder);
    const tick = { atMs: nowMs, reason: 'no change', figures: {} };
    await store.commit('ns#old', { version: 0, state: '', tick }, NEVER);
    const note = 'Records of an earlier release, without numbers for the charts: 1.';
    expect(await report('--model=old')).toContain(note);
    expect(JSON.parse(await report('--model=old', '--json'))).toMatchObject({ notes: [note] });
  });

  it.each([
    [['--since=0s'], /^--since "0s": allowed: 1s to 7d, such as 30m or 6h$/],
    [['--since=8d'], /^--since "8d": allowed: 1s to 7d/],
    [['--since=six'], /^--since "six": allowed/],
    [['--since'], /^--since needs a value$/],
    [['--output='], /^--output needs a value$/],
    [['--output=/nowhere/page.html'], /^--output \/nowhere\/page.html: cannot be written: .*ENOENT/],
    [['--gpu-price=cheap'], /^--gpu-price "cheap": allowed: US\$ an hour from 0 to 10000, or OPTION=NUMBER$/],
    [['--gpu-price=-1'], /^--gpu-price "-1": allowed/],
    [['--gpu-price=decode=1=2'], /^--gpu-price "decode=1=2": allowed/],
    [['--gpu-price=spot=1'], /^--gpu-price spot: the fleet has no such option; allowed: decode$/],
    [['--model=other'], /^no planner has decided anything here; known: ns#m$/],
    [['--tables=x'], /--tables/],
  ])('refuses %j', async (flags, problem) => {
    await expect(report(...flags)).rejects.toThrow(problem);
  });
});

describe.runIf(hasDynamoDb())('stator planner report, of a table', () => {
  let server: DynamoDbServer;
  const tableName = `report-${process.pid}`;
  beforeAll(async () => {
    server = await startDynamoDb();
    await createTable({ tableName, endpoint: server.url });
  });
  afterAll(() => server?.stop());

  it('reads the records of its time only, for one of several models', async () => {
    const nowMs = Date.now();
    const store = await DynamoDbPlannerStore.open({ tableName, endpoint: server.url });
    await fill(store, 'ns#one', 2, nowMs);
    await fill(store, 'ns#two', 1, nowMs - HOUR_MS);
    await store.close();
    const env = {
      AWS_ACCESS_KEY_ID: 'local',
      AWS_SECRET_ACCESS_KEY: 'local',
      AWS_REGION: 'us-east-1',
      STATOR_PLANNER_TABLE: tableName,
      STATOR_DYNAMODB_ENDPOINT: server.url,
    };
    const one = await reportPlanner(['--model=one', '--since=1h'], env, nowMs);
    expect(one).toContain('<h1>Fleet of one</h1>');
    expect(factOf(one, 'requests')).toBe('3,600 (1.00 a second)');
    const two = await reportPlanner(['--model=two', '--since=1h'], env, nowMs);
    expect(two).toContain('Nothing of this fleet was recorded in this time.');
    await expect(reportPlanner([], env, nowMs)).rejects.toThrow(/several models: choose one.*known: ns#one, ns#two/);
  });
});
