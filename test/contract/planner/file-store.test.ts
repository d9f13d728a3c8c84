import { rmSync, writeFileSync } from 'node:fs';
import { appendFile, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { FilePlannerStore } from '../../../shared/planner/index.ts';
import { describePlannerStore, someDecision } from './store.contract.ts';

const NEVER = new AbortController().signal;
const clock = { ...systemClock, wallMs: () => 1_800_000_000_000 };
const folders: string[] = [];

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'stator-planner-'));
  folders.push(folder);
  return folder;
}

afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))));

describePlannerStore('file', async () => {
  const folder = await newFolder();
  return [new FilePlannerStore(folder, clock), new FilePlannerStore(folder, clock)];
});

describe('the log of planners', () => {
  let folder: string;
  let path: string;
  beforeEach(async () => {
    folder = join(await newFolder(), 'deep');
    path = join(folder, 'planner.jsonl');
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it('is its user’s own, and holds what a process that has ended wrote', async () => {
    const store = new FilePlannerStore(folder, clock);
    await store.commit('g', { version: 0, state: 's', decision: someDecision(0) }, NEVER);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    const later = new FilePlannerStore(folder, clock);
    expect(await later.readState('g', NEVER)).toEqual({ version: 1, state: 's' });
    expect(await later.decision('g', 0, NEVER)).toEqual(someDecision(0));
  });

  it('calls a tick `look` in its lines, as logs that are there do', async () => {
    const tick = { atMs: clock.wallMs(), reason: 'no change', figures: { running: 3 } };
    await new FilePlannerStore(folder, clock).commit('g', { version: 0, state: 's', tick }, NEVER);
    const line = ['commit', 'g', { version: 0, state: 's', look: tick }];
    expect(JSON.parse(await readFile(path, 'utf8'))).toEqual(line);
    await appendFile(path, `${JSON.stringify(['commit', 'g', { version: 1, state: 't', look: tick }])}\n`);
    expect(await new FilePlannerStore(folder, clock).ticks('g', { sinceMs: 0 }, NEVER)).toEqual([tick, tick]);
  });

  it('takes changes of decisions and reservations as earlier versions wrote them', async () => {
    await new FilePlannerStore(folder, clock).commit('g', { version: 0, state: 's', decision: someDecision(0) }, NEVER);
    const claim = { holder: 'h', untilMs: 5 };
    const lines = [
      ['move', 'g', someDecision(0), { status: 'APPLYING', claim }],
      ['move', 'g', { ...someDecision(0), status: 'APPLYING', claim }, { status: 'APPLIED' }],
      ['reserve', 'g/decode', 3, 8],
    ];
    await appendFile(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const store = new FilePlannerStore(folder, clock);
    const old = await store.decision('g', 0, NEVER);
    expect(old).toMatchObject({ status: 'APPLIED' });
    expect(await store.reservations(NEVER)).toEqual({ 'g/decode': 3 });
    expect(await store.move('g', old!, { status: 'APPLYING' }, NEVER)).toMatchObject({ revision: 1 });
  });

  it('begins leases above all old ones if their file was lost or cut short', async () => {
    const store = new FilePlannerStore(folder, clock);
    const first = await store.takeLease('g', 'a', -60_000, NEVER);
    await store.takeLease('g', 'a', -60_000, NEVER);
    await writeFile(join(folder, 'leases.json'), '{"g":{"ho');
    const later = new FilePlannerStore(folder, { ...clock, wallMs: () => clock.wallMs() + 5000 });
    expect((await later.takeLease('g', 'b', 60_000, NEVER))?.fence).toBeGreaterThan((first?.fence ?? 0) + 1);
    expect(await store.takeLease('g', 'a', 60_000, NEVER)).toBeUndefined();
  });

  it('goes on behind a line that a crash has cut short', async () => {
    const store = new FilePlannerStore(folder, clock);
    await store.commit('g', { version: 0, state: 's' }, NEVER);
    await appendFile(path, '["commit","g",{"version":1,"st');
    expect(await store.readState('g', NEVER)).toEqual({ version: 1, state: 's' });
    const other = new FilePlannerStore(folder, clock);
    expect(await other.commit('g', { version: 1, state: 't' }, NEVER)).toBe(true);
    for (const reader of [store, other, new FilePlannerStore(folder, clock)]) {
      expect(await reader.readState('g', NEVER)).toEqual({ version: 2, state: 't' });
    }
  });

  it('is read to its end by readers at the same time', async () => {
    const [writer, reader] = [new FilePlannerStore(folder, clock), new FilePlannerStore(folder, clock)];
    await writer.commit('g', { version: 0, state: 's' }, NEVER);
    await Promise.all([
      reader.readState('g', NEVER),
      reader.groups(NEVER),
      reader.decisions('g', { sinceMs: 0 }, NEVER),
    ]);
    await writer.commit('g', { version: 1, state: 't'.repeat(999), decision: someDecision(0) }, NEVER);
    expect((await reader.readState('g', NEVER))?.version).toBe(2);
    expect(await reader.decisions('g', { sinceMs: 0 }, NEVER)).toEqual([someDecision(0)]);
  });

  it('leaves turns of the event loop to others while a process reads all of it', async () => {
    const writer = new FilePlannerStore(folder, clock);
    const state = 'x'.repeat(2 ** 17);
    for (let version = 0; version < 20; version++) await writer.commit('g', { version, state }, NEVER);
    let turn = 0;
    let next = setImmediate(function count() {
      turn++;
      next = setImmediate(count);
    });
    const turns = new Set<number>();
    const wallMs = (): number => {
      turns.add(turn); // for each line
      return clock.wallMs();
    };
    const { version } = (await new FilePlannerStore(folder, { ...clock, wallMs }).readState('g', NEVER)) ?? {};
    clearImmediate(next);
    expect([version, turns.size > 4]).toEqual([20, true]);
  });

  it('is written anew when it has grown long, under the eyes of others', async () => {
    const [writer, reader] = [new FilePlannerStore(folder, clock), new FilePlannerStore(folder, clock)];
    const state = 'x'.repeat(2 ** 20);
    for (let version = 0; version < 20; version++) {
      expect(
        await writer.commit('g', { version, state: `${version}${state}`, decision: someDecision(version) }, NEVER),
      ).toBe(true);
      if (version % 7 === 0) expect((await reader.readState('g', NEVER))?.version).toBe(version + 1);
    }
    expect((await stat(path)).size).toBeLessThan(12 * 2 ** 20);
    expect(await reader.decisions('g', { sinceMs: 0 }, NEVER)).toHaveLength(20);
    expect(await reader.commit('g', { version: 20, state: 'short' }, NEVER)).toBe(true);
    expect(await writer.readState('g', NEVER)).toEqual({ version: 21, state: 'short' });
  });

  it.each([0, 3_600_000, -3_600_000])(
    'is written although a process has died over it, and not while one is at it, by a clock %d ms off',
    async (offMs) => {
      await new FilePlannerStore(folder, clock).commit('g', { version: 0, state: 's' }, NEVER);
      await writeFile(`${path}.lock`, '');
      let passedMs = 0;
      const nowMs = (): number => systemClock.nowMs() + passedMs;
      const store = new FilePlannerStore(folder, { ...systemClock, nowMs, wallMs: () => systemClock.wallMs() + offMs });
      const late = store.commit('g', { version: 1, state: 'late' }, AbortSignal.timeout(100));
      await expect(late).rejects.toMatchObject({ name: 'TimeoutError' });
      passedMs = 4000;
      expect(await store.commit('g', { version: 1, state: 't' }, NEVER)).toBe(true);
      expect(await readdir(folder)).toEqual(['planner.jsonl']);
    },
  );

  it('is not written by who stood still while another one took the lock from it', async () => {
    let swap = (): void => {};
    const wallMs = (): number => {
      swap(); // when the change is made, before its line is written
      return clock.wallMs();
    };
    const store = new FilePlannerStore(folder, { ...clock, wallMs });
    await store.commit('g', { version: 0, state: 's', decision: someDecision(0) }, NEVER);
    swap = () => {
      rmSync(`${path}.lock`);
      writeFileSync(`${path}.lock`, ''); // of the other one
    };
    const change = store.commit('g', { version: 1, state: 't', decision: someDecision(1) }, NEVER);
    await expect(change).rejects.toThrow('was taken by another process');
    swap = () => {};
    expect(await store.readState('g', NEVER)).toEqual({ version: 1, state: 's' });
    expect(await readdir(folder)).toEqual(['planner.jsonl', 'planner.jsonl.lock']);
  });
});
