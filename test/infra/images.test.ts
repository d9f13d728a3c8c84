import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { IMAGE_SOURCES } from '../../infra/constructs/containers.ts';
import { spawnNode } from '../support/index.ts';
import { runCommand } from '../support/tools/tool.ts';

const MB = 1_000_000;

/** What a clean context holds of the repository, assembled as the Dockerfiles do it. */
let folder: string;
let app: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'stator-image-'));
  const sources = join(folder, 'build');
  for (const path of IMAGE_SOURCES) {
    mkdirSync(dirname(join(sources, path)), { recursive: true });
    cpSync(path, join(sources, path), { recursive: true });
  }
  symlinkSync(resolve('node_modules'), join(sources, 'node_modules')); // what npm ci of the same lock file makes
  const record = 'node_modules/.cache/stator/build.json';
  const before = statSync(record, { throwIfNoEntry: false }) && readFileSync(record);
  app = join(folder, 'app');
  const script = `cd '${sources}' && sh infra/images/assemble.sh '${app}' amd64`;
  await runCommand('sh', ['-c', script], { timeoutMs: 120_000 });
  // The record of the last build is the clone's own, whose dist/ is untouched.
  if (before === undefined) rmSync(record, { force: true });
  else await import('node:fs/promises').then(({ writeFile }) => writeFile(record, before));
}, 150_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function bytesOf(path: string): number {
  const stat = statSync(path);
  return stat.isDirectory() ? readdirSync(path).reduce((sum, name) => sum + bytesOf(join(path, name)), 0) : stat.size;
}

describe('the images', () => {
  it.each(['edge', 'worker'])('%s: bases by digest, not root, and nothing run in the last stage', (name) => {
    const lines = readFileSync(`infra/images/${name}/Dockerfile`, 'utf8').split('\n');
    const bases = lines.flatMap((line) => /^(?:FROM|ARG ENGINE=)\s*(?:--platform=\S+ )?(\S+)/.exec(line)?.[1] ?? []);
    for (const base of bases.filter((of) => !of.startsWith('$'))) expect(base).toMatch(/@sha256:[0-9a-f]{64}$/);
    const last = lines.slice(lines.findLastIndex((line) => line.startsWith('FROM')));
    expect(last.some((line) => line.startsWith('RUN'))).toBe(false);
    expect(last).toContain('USER 1000:1000');
  });

  it('are made by docker build of the same sources as by cdk deploy', () => {
    const lines = readFileSync('.dockerignore', 'utf8').split('\n');
    expect(lines.filter((line) => line !== '' && !line.startsWith('#'))).toEqual([
      '*',
      ...IMAGE_SOURCES.map((path) => `!${path}`),
    ]);
  });

  it('add at most 60 MB to their base', () => {
    expect(bytesOf(app)).toBeLessThan(60 * MB);
  });

  it('run from that folder alone', async () => {
    const version = spawnNode([join(app, 'bin/stator.js'), '--version'], { env: {} });
    expect(await version.exited).toBe(0);
    const loading = "import('zeromq').then(({ version }) => process.exit(version ? 0 : 1))";
    const native = spawnNode(['--input-type=module', '-e', loading], { cwd: app, env: {} });
    expect(await native.exited).toBe(0);
  });
});
