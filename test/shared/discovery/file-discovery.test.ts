import {
  chmod,
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Clock, systemClock } from '../../../shared/clock/index.ts';
import { resolveConfig } from '../../../shared/config/index.ts';
import { FolderFollower } from '../../../shared/discovery/file/folder-follower.ts';
import { makeOwnFolder } from '../../../shared/discovery/file/user-folder.ts';
import { type Discovery, openStore } from '../../../shared/discovery/index.ts';
import { endpointAt, Witness } from '../../contract/discovery/records.ts';
import { createDiscovery } from '../../support/create-discovery.ts';
import { FreezableClock, waitUntil } from '../../support/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const instances = { bucket: 'v1/instances', prefix: '' } as const;
const fileName = (id: string): string => `ns%2Fbackend%2Fgenerate%2F${id}`;

let folder: string;
let rootPath: string;
let bucketPath: string;
let opened: Discovery[];
let problems: string[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'stator-discovery-'));
  rootPath = join(folder, 'root');
  bucketPath = join(rootPath, 'stator', 'v1', 'instances');
  opened = [];
  problems = [];
});

afterEach(async () => {
  await Promise.all(opened.map((discovery) => discovery.close()));
  await rm(folder, { recursive: true });
});

async function open(ttlMs = 500, pollMs = 50, clock: Clock = systemClock): Promise<Discovery> {
  const onProblem = (problem: Error) => void problems.push(problem.message);
  const discovery = await createDiscovery({ backend: 'file', rootPath, ttlMs, pollMs, clock, onProblem });
  opened.push(discovery);
  return discovery;
}

describe('layout', () => {
  it('has one file a key, named by the whole encoded key, and leaves no temporary file', async () => {
    const discovery = await open();
    await discovery.put(endpointAt('dynamo/backend/generate/bfa8c2c963503f05'));
    await discovery.put(endpointAt('dynamo/backend/generate/bfa8c2c963503f05', 'other:1'));
    expect(await readdir(bucketPath)).toEqual(['dynamo%2Fbackend%2Fgenerate%2Fbfa8c2c963503f05']);
    const text = await readFile(join(bucketPath, 'dynamo%2Fbackend%2Fgenerate%2Fbfa8c2c963503f05'), 'utf8');
    expect(JSON.parse(text)).toMatchObject({ type: 'Endpoint', instance_id: 'bfa8c2c963503f05' });
  });

  it('is empty again after close', async () => {
    const discovery = await open();
    await discovery.put(endpointAt('ns/backend/generate/a'));
    await discovery.close();
    expect(await readdir(bucketPath)).toEqual([]);
  });
});

describe('files of other programs there', () => {
  const past = new Date(Date.now() - 3_600_000);

  it('is never deleted, however old: files of other names, links, and what links lead to', async () => {
    const elsewhere = join(folder, 'elsewhere');
    await mkdir(elsewhere);
    const notes = ['notes.txt', '.tmp_draft', 'a%2fb%2Fgenerate%2Fc'];
    await mkdir(bucketPath, { recursive: true });
    for (const name of notes) {
      await writeFile(join(bucketPath, name), 'mine');
      await utimes(join(bucketPath, name), past, past);
    }
    const kept = join(elsewhere, 'ns%2Fbackend%2Fgenerate%2Fa');
    await writeFile(kept, 'kept');
    await utimes(kept, past, past);
    await symlink(kept, join(bucketPath, fileName('a')));
    expect(await (await open()).list(instances)).toEqual([]);
    expect((await readdir(bucketPath)).sort()).toEqual([...notes, fileName('a')].sort());
    expect(await readFile(kept, 'utf8')).toBe('kept');
  });

  it('is neither read nor swept where a link stands in the place of a folder', async () => {
    const elsewhere = join(folder, 'elsewhere');
    const kept = join(elsewhere, fileName('a'));
    await mkdir(elsewhere);
    await writeFile(kept, 'kept');
    await utimes(kept, past, past);
    await mkdir(join(rootPath, 'stator', 'v1'), { recursive: true });
    await symlink(elsewhere, bucketPath);
    await expect((await open()).list(instances)).rejects.toThrow('is a link or not a folder');
    expect(await readdir(elsewhere)).toEqual([fileName('a')]);
  });

  it('is not read when it is larger than a record can be', async () => {
    await mkdir(bucketPath, { recursive: true });
    await writeFile(join(bucketPath, fileName('a')), ' '.repeat(1024 * 1024 + 1));
    expect(await (await open()).list(instances)).toEqual([]);
    expect(problems).toEqual([]);
  });
});

describe('the folder that no setting names', () => {
  const host = process.platform === 'darwin' ? [] : [hostname()];
  let own: string;

  beforeEach(() => {
    vi.stubEnv('TMPDIR', folder);
    vi.stubEnv('XDG_STATE_HOME', join(folder, 'state'));
    own = join(folder, 'state', 'stator', 'discovery', ...host);
  });

  afterEach(() => {
    vi.unstubAllEnvs();
  });

  async function openDefault(): Promise<Discovery> {
    const { settings } = resolveConfig('worker', ['--engine=mocker'], {});
    const discovery = await openStore(settings, { onProblem: ({ message }) => void problems.push(message) });
    opened.push(discovery);
    return discovery;
  }

  async function expectMeeting(place: string): Promise<void> {
    const [writer, reader] = [await openDefault(), await openDefault()];
    await writer.put(endpointAt('ns/backend/generate/a'));
    expect(await reader.list(instances)).toHaveLength(1);
    expect([writer.meetingPlace, reader.meetingPlace]).toEqual([place, place]);
    expect((await stat(place)).mode & 0o777).toBe(0o700);
  }

  it("is one of this user alone, among the user's state", async () => {
    await expectMeeting(own);
    expect((await stat(join(folder, 'state', 'stator'))).mode & 0o777).toBe(0o700);
    expect(problems).toEqual([]);
  });

  it('is in the home where no folder of states is named, or one that is not absolute', async () => {
    vi.stubEnv('HOME', join(folder, 'home'));
    vi.stubEnv('XDG_STATE_HOME', 'state');
    await expectMeeting(join(folder, 'home', '.local', 'state', 'stator', 'discovery', ...host));
  });

  it.each<[string, () => Promise<void>]>([
    ['cannot be made', () => writeFile(join(folder, 'state'), '')],
    ['has a name that is too long', async () => void vi.stubEnv('XDG_STATE_HOME', join(folder, 'x'.repeat(300)))],
  ])('is in the temporary folder where that one %s, which is said', async (_how, prepare) => {
    await prepare();
    await expectMeeting(join(folder, `dynamo_store_kv-${process.getuid?.()}`));
    expect(problems[0]).toMatch(/discovery.*cannot be used \(.*\); using the folder .*dynamo_store_kv/);
  });

  it.each<[string, () => Promise<unknown>, string]>([
    ['that others may write', () => mkdir(own, { recursive: true }).then(() => chmod(own, 0o777)), 'is open to other'],
    [
      'that is a link',
      async () => {
        await mkdir(rootPath);
        await mkdir(dirname(own), { recursive: true });
        await symlink(rootPath, own);
      },
      'is a link or not a folder',
    ],
  ])('is refused when another user made one first %s', async (_how, make, says) => {
    await make();
    const discovery = await openDefault();
    await expect(discovery.list(instances)).rejects.toThrow(says);
    await expect(discovery.put(endpointAt('ns/backend/generate/a'))).rejects.toThrow('DYN_FILE_KV');
  });

  it('is refused when it belongs to another user', async () => {
    await mkdir(own, { mode: 0o700, recursive: true });
    const canGiveAway = process.getuid?.() === 0; // no other user can; the system's own folder then stands for a foreign one
    if (canGiveAway) await chown(own, 12345, 12345);
    await expect(makeOwnFolder(canGiveAway ? own : '/usr')).rejects.toThrow('belongs to another user');
  });
});

describe('damaged files', () => {
  it('keeps the previous value of a half-written file, and takes the whole one when it comes', async () => {
    const [writer, reader] = [await open(10_000), await open(10_000)];
    const witness = new Witness();
    await writer.put(endpointAt('ns/backend/generate/a'));
    await reader.watch(instances, witness);
    const path = join(bucketPath, fileName('a'));
    const whole = JSON.stringify(endpointAt('ns/backend/generate/a', 'moved:1'));
    await writeFile(path, whole.slice(0, 40)); // in place, as a foreign writer might
    await waitUntil(() => problems.length === 1);
    expect(problems).toEqual(['unreadable discovery entries in v1/instances: ns/backend/generate/a']);
    expect([...witness.present.values()]).toEqual([endpointAt('ns/backend/generate/a')]);
    await writeFile(path, whole);
    await waitUntil(() => witness.events.length === 2);
    expect([...witness.present.values()]).toEqual([endpointAt('ns/backend/generate/a', 'moved:1')]);
  });

  it('ignores new files that are no records, temporary files and foreign names', async () => {
    const discovery = await open(10_000);
    const witness = new Witness();
    await mkdir(bucketPath, { recursive: true });
    await writeFile(join(bucketPath, fileName('a')), '{"type":');
    await writeFile(join(bucketPath, '.tmp_0123456789abcdef'), JSON.stringify(endpointAt('ns/backend/generate/b')));
    await writeFile(join(bucketPath, '%zz'), 'not an encoding');
    await mkdir(join(bucketPath, 'folder'));
    await discovery.watch(instances, witness);
    await discovery.put(endpointAt('ns/backend/generate/c'));
    await waitUntil(() => witness.present.size === 1);
    expect(await discovery.list(instances)).toEqual([endpointAt('ns/backend/generate/c')]);
  });
});

describe('expiry', () => {
  it('deletes the files that a dead process left, and does not show them to a process that looks for the first time', async () => {
    const clock = new FreezableClock(undefined, 3_600_000); // its time lies in the future for an hour
    const writer = await open(300, 50, clock);
    clock.freeze();
    await writer.put(endpointAt('ns/backend/generate/a'));
    const isGone = async (): Promise<boolean> => (await (await open(300)).list(instances)).length === 0;
    await waitUntil(isGone);
    expect(await readdir(bucketPath)).toEqual([fileName('a')]); // no process has watched it for long enough
    const witness = new Witness();
    await (await open(300)).watch(instances, witness);
    await waitUntil(async () => (await readdir(bucketPath)).length === 0);
    expect(witness.events).toEqual([]);
  });

  it('does not take an outage of the folder for the death of everybody', async () => {
    const clock = new FreezableClock();
    const [writer, reader] = [await open(500, 50, clock), await open(500)];
    const witness = new Witness();
    await writer.put(endpointAt('ns/backend/generate/a'));
    await reader.watch(instances, witness);
    clock.freeze(); // nor can it renew
    await rename(rootPath, `${rootPath}.away`);
    const since = performance.now();
    await waitUntil(() => witness.outages.length === 1 && performance.now() - since > 600);
    await rename(`${rootPath}.away`, rootPath);
    await waitUntil(() => witness.outages.length === 2);
    expect(witness.present.size).toBe(1);
    await waitUntil(() => witness.present.size === 0);
  });

  it('writes a file again that was deleted although its process lives', async () => {
    const clock = new FreezableClock(); // of a writer that does not renew before the reader has looked
    const [writer, reader] = [await open(500, 50, clock), await open(10_000)];
    const witness = new Witness();
    clock.freeze();
    await writer.put(endpointAt('ns/backend/generate/a'));
    await reader.watch(instances, witness);
    await rm(join(bucketPath, fileName('a')));
    await waitUntil(() => witness.present.size === 0);
    clock.thaw();
    await waitUntil(() => witness.events.length === 3);
    expect(witness.events.map((event) => event.kind)).toEqual(['added', 'removed', 'added']);
  });
});

describe('a vanished root folder', () => {
  it('is an outage for a watcher, which keeps what it knows until the folder is back', async () => {
    const [writer, reader] = [await open(60_000), await open(60_000)];
    const witness = new Witness();
    await writer.put(endpointAt('ns/backend/generate/a'));
    await reader.watch(instances, witness);
    await rename(rootPath, `${rootPath}.away`);
    await waitUntil(() => witness.outages.length === 1);
    expect(witness.outages[0]).toMatch(/failing: cannot read .*instances: ENOENT/);
    expect(witness.present.size).toBe(1);
    await rename(`${rootPath}.away`, rootPath);
    await waitUntil(() => witness.outages.length === 2);
    expect(witness.events).toHaveLength(1);
    await writer.put(endpointAt('ns/backend/generate/b'));
    await waitUntil(() => witness.present.size === 2);
  });

  it('is made again by the processes that have records in it', async () => {
    const [writer, reader] = [await open(), await open()];
    const witness = new Witness();
    await writer.put(endpointAt('ns/backend/generate/a'));
    await reader.watch(instances, witness);
    await rm(rootPath, { recursive: true, maxRetries: 5 }); // the writer may be writing
    await waitUntil(async () => (await readdir(bucketPath)).length === 1);
    await waitUntil(() => witness.keys.join() === 'ns/backend/generate/a');
  });

  it('that was replaced between two looks is still followed by notice', async () => {
    const [writer, reader] = [await open(60_000, 200), await open(60_000, 200)];
    const witness = new Witness();
    await writer.put(endpointAt('ns/backend/generate/a'));
    await reader.watch(instances, witness);
    await rm(rootPath, { recursive: true, maxRetries: 5 }); // the writer may be writing
    await mkdir(bucketPath, { recursive: true });
    await waitUntil(() => witness.present.size === 0);
    await writer.put(endpointAt('ns/backend/generate/b'));
    await waitUntil(() => witness.keys.join() === 'ns/backend/generate/b');
  });
});

it('says in one line which folder cannot be used', async () => {
  await writeFile(rootPath, 'a file is in the way');
  const discovery = await open();
  const message = /^cannot write the discovery folder .*root: .* Check TMPDIR or DYN_FILE_KV$/;
  await expect(discovery.put(endpointAt('ns/c/e/1'))).rejects.toThrow(message);
  await expect(discovery.watch(instances, new Witness())).rejects.toMatchObject({ code: 'unavailable' });
});

describe('loads', () => {
  const watchedFolders = vi.spyOn(FolderFollower.prototype, 'follow');
  afterEach(() => watchedFolders.mockClear());

  it('are read by one reader, however fast watches come and go, and by none after the last one', async () => {
    const clock = new VirtualClock();
    const discovery = await open(500, 50, clock);
    for (let at = 0; at < 5; at++) discovery.watchLoads(() => {}).close();
    const watches = [discovery.watchLoads(() => {}), discovery.watchLoads(() => {})];
    await waitUntil(() => clock.pendingTimers > 0);
    expect(watchedFolders).toHaveBeenCalledTimes(1);
    for (const watch of watches) watch.close();
    await clock.advance(1000);
    expect(clock.pendingTimers).toBe(0);
  });

  it('come again after a pause', async () => {
    const discovery = await open();
    const worker = await open();
    await worker.put(endpointAt('ns/backend/generate/a1'));
    discovery.watchLoads(() => {}).close();
    let requests = 0;
    discovery.watchLoads((loads) => {
      requests = loads.get('a1')?.ranks[0]?.requests ?? requests;
    });
    worker.setLoad('a1', { ranks: [{ dpRank: 0, requests: 7, decodeBlocks: 0, prefillTokens: 0 }], isDraining: false });
    await waitUntil(() => requests === 7);
  });
});
