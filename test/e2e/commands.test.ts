import { spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { type FreshClone, makeFreshClone } from '../support/docs/fresh-clone.ts';
import { hasNatsServer } from '../support/index.ts';

const PREPARE_MS_MAX = 120_000;
const VERSION = `stator ${packageJson.version}\n`;

describe('the command stator in a clone', () => {
  let clone: FreshClone;
  let home: string;

  beforeAll(() => {
    home = mkdtempSync(join(tmpdir(), 'stator-home-'));
    clone = makeFreshClone();
    clone.install();
  }, PREPARE_MS_MAX);
  afterAll(() => {
    clone.remove();
    rmSync(home, { recursive: true, force: true });
  });

  function run(command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const options = {
      cwd: clone.root,
      encoding: 'utf8',
      env: { PATH: process.env.PATH ?? '', HOME: home, ...env },
    } as const;
    const { status, stdout, stderr } = spawnSync(command, args, options);
    return { status, stdout, stderr };
  }
  const builtAt = (): number => statSync(join(clone.root, 'dist/stator.js')).mtimeMs;

  it('says that nothing is built, and how to build', () => {
    expect(run('bin/stator.js', ['version'])).toEqual({
      status: 1,
      stdout: '',
      stderr: `stator: not built; run npm run build in ${clone.root}/\n`,
    });
  });

  it('is found by npx before and after a build, with what npx remembers of the first time', () => {
    const unscripted = run('npx', ['--yes', 'stator', 'version'], { npm_config_ignore_scripts: 'true' });
    expect(`${unscripted.stdout}${unscripted.stderr}`).toMatch(/stator: not built; run npm run build|^stator \d/m);
    rmSync(join(clone.root, 'dist'), { recursive: true, force: true });
    expect(run('npm', ['run', '--silent', 'build'])).toMatchObject({ status: 0 });
    expect(run('npx', ['stator', 'version'])).toMatchObject({ status: 0, stdout: VERSION });
  });

  it('runs with a small young generation', () => {
    const told = { NODE_OPTIONS: '--import=data:text/javascript,console.error(process.execArgv.join())' };
    expect(run('bin/stator.js', ['version'], told)).toEqual({
      status: 0,
      stdout: VERSION,
      stderr: '--max-semi-space-size=4\n',
    });
  });

  it('is built anew after an edit, and not without one', () => {
    const before = builtAt();
    run('npm', ['run', '--silent', 'build']);
    run('npm', ['run', '--silent', 'prepare']);
    expect(builtAt()).toBe(before);
    appendFileSync(join(clone.root, 'functions/cli/main.ts'), '\nconsole.error("edited");\n');
    run('npm', ['run', '--silent', 'build']);
    expect(run('bin/stator.js', ['version']).stderr).toBe('edited\n');
  });

  it('does not make an installation fail that leaves out what builds', () => {
    rmSync(join(clone.root, 'dist'), { recursive: true });
    rmSync(join(clone.root, 'node_modules/esbuild'), { recursive: true });
    expect(run('npm', ['run', '--silent', 'prepare'])).toMatchObject({
      status: 0,
      stderr: expect.stringContaining('stator: not built: esbuild is not installed'),
    });
    expect(run('bin/stator.js', []).stderr).toContain('stator: not built; run npm ci');
  });
});

describe.runIf(hasNatsServer())('npm run bench:part -- bench/event-plane.ts', () => {
  it('uses the nats-server that the tests install', () => {
    const env = { ...process.env, STATOR_TEST_NATS_BIN: '' };
    const options = { encoding: 'utf8', env } as const;
    const args = ['bench/run.mjs', 'bench/event-plane.ts', '--events', '500', '--json'];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, options);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(JSON.parse(stdout)).toHaveLength(4);
  });
});

describe('what people read', () => {
  const list = (folder: string) => readdirSync(folder).map((name) => `${folder}/${name}`);
  const pages = [
    'README.md',
    'CONTRIBUTING.md',
    'CHANGELOG.md',
    ...list('docs'),
    ...list('examples'),
    ...list('proto'),
  ];

  it.each(pages.filter((page) => /\.(md|mjs|proto)$/.test(page)))('%s names no document that is elsewhere', (page) => {
    const text = readFileSync(page, 'utf8').replaceAll(/https?:\/\/\S+/g, '');
    const documents = [...text.matchAll(/[\w./-]+\.md\b/g)].map(([name]) => name);
    expect(documents.filter((name) => !existsSync(join(dirname(page), name)) && !existsSync(name))).toEqual([]);
    expect(text).not.toMatch(/\bsections? \d|\bruling \d/);
  });
});
