import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { childPids, isRunning, type SpawnedProcess, spawnProgram, waitUntil } from '../support/index.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const START_MS_MAX = 40_000;

/** A package with the scripts of ours, built: another build in the tree would be in the way of other suites. */
let folder: string;
const spawned: SpawnedProcess[] = [];
let seen: readonly number[] = [];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'kill-'));
  copyFileSync(join(ROOT, 'package.json'), join(folder, 'package.json'));
  writeFileSync(join(folder, 'esbuild.config.mjs'), '');
  symlinkSync(join(ROOT, 'dist'), join(folder, 'dist'));
  mkdirSync(join(folder, 'node_modules/.bin'), { recursive: true });
  symlinkSync(join(ROOT, 'dist/stator.js'), join(folder, 'node_modules/.bin/stator'));
  mkdirSync(join(folder, 'tmp'));
});

afterEach(({ task }) => {
  if (task.result?.state === 'fail') for (const child of spawned) console.error(child.stdout(), child.stderr());
  for (const pid of seen.filter(isRunning)) process.kill(pid, 'SIGKILL');
  seen = [];
});
afterAll(async () => {
  await Promise.all(spawned.map((child) => child.kill()));
  rmSync(folder, { recursive: true, force: true });
});

function run(command: string, args: readonly string[]): SpawnedProcess {
  const names = Object.keys(process.env).filter((name) => /^(DYN|STATOR|AWS|npm)_/i.test(name));
  const env = {
    ...Object.fromEntries(names.map((name) => [name, undefined])),
    TMPDIR: join(folder, 'tmp'),
    DYN_FILE_KV: join(folder, 'kv'),
    npm_config_cache: join(folder, 'npm'),
    npm_config_offline: 'true',
    npm_config_update_notifier: 'false',
  };
  const child = spawnProgram(command, args, { cwd: folder, env });
  spawned.push(child);
  return child;
}

/** What `pid` has started, and what that has. */
function descendants(pid: number): readonly number[] {
  return childPids(pid).flatMap((child) => [child, ...descendants(child)]);
}

const COMMANDS = [
  ['npm start', 'npm', ['start', '--', '--http-port=0'], /Ctrl-C/],
  ['npx stator local', 'npx', ['stator', 'local', '--http-port=0'], /Ctrl-C/],
  ['npx stator worker', 'npx', ['stator', 'worker', '--engine=mocker', '--discovery-backend=file'], /worker is ready/],
  [
    'npx stator frontend',
    'npx',
    ['stator', 'frontend', '--http-port=0', '--discovery-backend=file'],
    /serving url=http:\/\/127\.0\.0\.1:[1-9]\d* address=0\.0\.0\.0:[1-9]/,
  ],
] as const;

/** Ends npm alone, as `kill` does; or, as Ctrl-C does, every process of the terminal. */
const ENDS: readonly (readonly [name: string, signal: NodeJS.Signals, reachesAll: boolean])[] = [
  ['SIGTERM', 'SIGTERM', false],
  ['SIGHUP', 'SIGHUP', false],
  ['SIGKILL', 'SIGKILL', false],
  ['Ctrl-C', 'SIGINT', true],
  ['the end of the terminal', 'SIGHUP', true],
];

async function expectNothingLeft(npm: SpawnedProcess, signal: NodeJS.Signals, reachesAll: boolean): Promise<void> {
  seen = descendants(npm.pid);
  expect(seen.length).toBeGreaterThan(0);
  for (const pid of reachesAll ? [npm.pid, ...seen] : [npm.pid]) process.kill(pid, signal);
  await waitUntil(() => !seen.some(isRunning), { timeoutMs: 30_000, what: `the end of ${seen}` });
  await npm.exited;
}

describe.each(COMMANDS)('%s', (name, command, args, ready) => {
  const isOneOfAKind = name === 'npm start' || name === 'npx stator worker'; // the others end as these do
  const ends = isOneOfAKind ? ENDS : ENDS.filter(([, signal]) => signal === 'SIGKILL');
  // By Ctrl-C npm start has more to show, see below.
  it.each(name === 'npm start' ? ends.filter(([end]) => end !== 'Ctrl-C') : ends)(
    'leaves no process behind when it is ended by %s',
    async (_end, signal, reachesAll) => {
      const npm = run(command, args);
      await npm.waitForOutput(ready, START_MS_MAX);
      await expectNothingLeft(npm, signal, reachesAll);
    },
  );
});

describe('npm start', () => {
  it('ends by SIGINT, which npm hands on', async () => {
    const npm = run('npm', ['start', '--', '--http-port=0']);
    await npm.waitForOutput(/Ctrl-C/, START_MS_MAX);
    await expectNothingLeft(npm, 'SIGINT', false);
  });

  it('drains by Ctrl-C, though npm hands on the signal that the terminal has sent to all', async () => {
    const npm = run('npm', ['start', '--', '--http-port=0']);
    await npm.waitForOutput(/Ctrl-C/, START_MS_MAX);
    await expectNothingLeft(npm, 'SIGINT', true);
    expect(npm.stderr().match(/worker has drained/g)).toHaveLength(2);
  });
});
