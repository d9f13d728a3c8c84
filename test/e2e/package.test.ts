import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CodeBlock, readPages } from '../support/docs/blocks.ts';
import { makeFreshClone } from '../support/docs/fresh-clone.ts';
import { readChat, spawnProgram } from '../support/index.ts';

/** Bytes of all files of the package together. */
const UNPACKED_BYTES_MAX = 8_000_000;
const PREPARE_MS_MAX = 240_000;
const compiler = (name: string): string =>
  fileURLToPath(new URL(`../../node_modules/${name}/bin/tsc`, import.meta.url));
const [TYPESCRIPT_6, TYPESCRIPT_7] = [compiler('typescript'), compiler('typescript-native')];

const TYPE_ROOT = fileURLToPath(new URL('../../node_modules/@types', import.meta.url));
const RESOLUTIONS = [
  ['bundler', 'esnext', TYPESCRIPT_7],
  ['node16', 'node16', TYPESCRIPT_6],
  ['nodenext', 'nodenext', TYPESCRIPT_7],
] as const;

const folder = mkdtempSync(join(tmpdir(), 'stator-package-'));
const installed = join(folder, 'node_modules/stator');
let files: readonly string[];

function run(command: string, ...args: readonly string[]): string {
  return execFileSync(command, args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

beforeAll(() => {
  const clone = makeFreshClone();
  try {
    clone.install();
    execFileSync('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: clone.root, stdio: 'pipe' });
  } finally {
    clone.remove();
  }
  const [tarball = ''] = readdirSync(folder);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'consumer', private: true, type: 'module' }));
  run('npm', 'install', '--no-audit', '--no-fund', '--prefer-offline', `./${tarball}`);
  files = readdirSync(installed, { recursive: true, encoding: 'utf8' }).filter((path) =>
    statSync(join(installed, path)).isFile(),
  );
}, PREPARE_MS_MAX);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('the package', () => {
  it('is small: no source maps, no benchmarks, no tests, types in one file a door', () => {
    const bytes = files.reduce((sum, path) => sum + statSync(join(installed, path)).size, 0);
    expect(bytes).toBeLessThanOrEqual(UNPACKED_BYTES_MAX);
    expect(files.filter((path) => /\.map$|^bench|dist\/bench|^test|^node_modules/.test(path))).toEqual([]);
    expect(files.filter((path) => path.endsWith('.ts')).sort()).toEqual(['dist/frontend.d.ts', 'dist/worker.d.ts']);
  });

  it('has every file that its pages link to', () => {
    const dangling = files
      .filter((path) => path.endsWith('.md'))
      .flatMap((path) => {
        const links = [...readFileSync(join(installed, path), 'utf8').matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)];
        return links.flatMap(([, target = '']) =>
          existsSync(join(installed, dirname(path), target)) ? [] : [`${path} links to ${target}`],
        );
      });
    expect(dangling).toEqual([]);
  });

  it('has types whose comments cite no document outside the package', () => {
    for (const path of files.filter((each) => each.endsWith('.d.ts'))) {
      const cited = readFileSync(join(installed, path), 'utf8').match(
        /.*(\w+\.md, section|\(sections? \d|ruling \d).*/g,
      );
      expect(cited ?? []).toEqual([]);
    }
  });

  it('brings one package along: the one with native code', () => {
    const { dependencies } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as {
      readonly dependencies: Readonly<Record<string, string>>;
    };
    expect(Object.keys(dependencies)).toEqual(['zeromq']);
  });

  it('says what it holds of others, and under which licences', () => {
    const read = (path: string): string => readFileSync(join(installed, path), 'utf8');
    const { components } = JSON.parse(read('dist/sbom.cdx.json')) as {
      readonly components: readonly { readonly name: string; readonly version: string }[];
    };
    const licences = read('dist/THIRD-PARTY-LICENSES.txt');
    const listed = new Set(components.map(({ name }) => name));
    const [, table = ''] = read('docs/dependencies.md').match(/## At run time\n([\s\S]*?)\n## /) ?? [];
    const bundled = table.split('\n').flatMap((row) => (row.split('|')[1] ?? '').match(/[^`\s,|]+/g) ?? []);
    const names = bundled.filter((name) => !/^(Package|-+)$/.test(name));
    expect(names.length).toBeGreaterThan(20);
    expect(names.filter((name) => !listed.has(name))).toEqual([]);
    expect(names.filter((name) => name !== 'zeromq' && !licences.includes(`\n${name} `))).toEqual([]);
    expect(components.map(({ name }) => name)).not.toContain('vitest');
  });

  it('is run by npx', () => {
    expect(run('npx', 'stator', 'version')).toMatch(/^stator \d+\.\d+\.\d+\n$/);
  });

  it('serves a chat where it is installed', async () => {
    const local = spawnProgram(join(folder, 'node_modules/.bin/stator'), ['local', '--http-port=0'], { cwd: folder });
    try {
      const [url] = await local.waitForOutput(/http:\/\/127\.0\.0\.1:\d+/, 30_000);
      const chat = await readChat(url, {
        model: 'stator-mini',
        messages: [{ role: 'user', content: 'What are you?' }],
      });
      expect(chat.finishReason).toBe('stop');
      const sheets = ['gzip', 'identity', 'gzip;q=0'].map(async (coding) => {
        const answer = await fetch(`${url}/docs/swagger-ui.css`, { headers: { 'accept-encoding': coding } });
        return [answer.headers.get('content-encoding'), await answer.text()] as const;
      });
      const [packed, plain, refused] = await Promise.all(sheets);
      expect(packed?.[0]).toBe('gzip');
      expect(plain?.[1]).toContain('.swagger-ui');
      expect([plain, refused]).toEqual([
        [null, packed?.[1]],
        [null, packed?.[1]],
      ]);
    } finally {
      await local.kill();
    }
  });

  it('opens its doors to programs', () => {
    const program = "const [a, b] = [await import('stator'), await import('stator/worker')];";
    const shown = 'console.log(typeof a.createFrontend, typeof b.defineWorker, a.ServeError.name, b.ServeError.name)';
    expect(run(process.execPath, '--input-type=module', '-e', program + shown)).toBe(
      'function function ServeError ServeError\n',
    );
  });

  it.each(RESOLUTIONS)(
    'has types for the programs of its pages as TypeScript, with moduleResolution %s',
    (...resolution) => {
      const programs = shownPrograms();
      expect(programs.map(({ place }) => place)).toEqual(
        expect.arrayContaining([expect.stringMatching(/^README/), expect.stringMatching(/sdk/)]),
      );
      const types = { types: ['node'], typeRoots: [TYPE_ROOT], allowJs: true, checkJs: true };
      const files = programs.flatMap(({ text }, at) => [
        [`${at}.mts`, text] as const,
        [`${at}-plain.mjs`, text] as const, // what an editor checks that has been told to look at JavaScript
      ]);
      expect(check(`pages-${resolution[0]}`, files, resolution, types)).toBe('');
    },
  );

  it.each(RESOLUTIONS)('has types for programs with moduleResolution %s', (...resolution) => {
    expect(check(resolution[0], [['program.ts', PROGRAM]], resolution, { types: [] })).toBe('');
  });
});

/** The programs that pages show which import the package. */
function shownPrograms(): readonly CodeBlock[] {
  const blocks = readPages(process.cwd()).flatMap((page) => page.blocks);
  return blocks.filter(({ language, text }) => language === 'js' && /from 'stator/.test(text));
}

/** What the compiler has to say of the programs: nothing if all is well. */
function check(
  name: string,
  files: readonly (readonly [name: string, text: string])[],
  [moduleResolution, module, tsc]: readonly [string, string, string],
  more: object,
): string {
  const source = join(folder, name);
  mkdirSync(source);
  for (const [file, text] of files) writeFileSync(join(source, file), text);
  const strict = { strict: true, skipLibCheck: false, noEmit: true };
  const compilerOptions = { moduleResolution, module, target: 'es2022', ...strict, ...more };
  writeFileSync(join(source, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
  const { stdout, stderr } = spawnSync(process.execPath, [tsc, '-p', source], { encoding: 'utf8' });
  return stdout + stderr;
}

const PROGRAM = `
import { createFrontend, type EmbeddedFrontend, type FrontendOptions } from 'stator';
import { defineWorker, type DefinedWorker, ServeError, type WorkerDefinition } from 'stator/worker';

const definition: WorkerDefinition = {
  model: 'parrot',
  input: 'text',
  kinds: ['chat'],
  async *generate({ input }, { signal }) {
    if (signal.aborted) throw new ServeError('invalid_value', 'too late', { param: 'messages' });
    if (input.kind === 'tokens') yield [...input.tokenIds];
    yield 'Pretty Polly';
  },
};
export const worker: DefinedWorker = defineWorker(definition);
export const start = (options: FrontendOptions): Promise<EmbeddedFrontend> => createFrontend(options);
// @ts-expect-error a model needs a name
defineWorker({ ...definition, model: 7 });
`;
