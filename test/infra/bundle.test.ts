import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { bundleFunction } from '../../infra/bundle.ts';
import packageJson from '../../package.json' with { type: 'json' };

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'stator-bundle-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function bundle(files: Record<string, string>): ReturnType<typeof bundleFunction> {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  }
  return bundleFunction({ root, entry: 'entry.ts', outdir: 'out' });
}

describe('bundleFunction', () => {
  it('keeps lazily imported modules out of what a cold start loads', async () => {
    const lazy = `export const text = '${'x'.repeat(10_000)}';`;
    const result = await bundle({
      'entry.ts': `export const handler = async () => (await import('./lazy.ts')).text;`,
      'lazy.ts': lazy,
    });
    expect(readdirSync(result.directory)).toContain('index.mjs');
    expect(result.bytes - result.initBytes).toBeGreaterThan(10_000);
    expect(result.initBytes).toBeLessThan(1000);
  });

  const ROOM = {
    'room/index.ts': `export { small, type Size } from './small.ts'; export { large as big } from './large.ts';`,
    'room/small.ts': `export type Size = 1; export const small = 'small';`,
    'room/large.ts': `export const large = '${'x'.repeat(10_000)}';`,
  };

  it('loads no more of a room than what is taken from its door, at once or later', async () => {
    const { bytes, initBytes, directory } = await bundle({
      ...ROOM,
      'entry.ts': `
        import { small as one, type Size } from './room/index.ts';
        export const handler = async (): Promise<unknown> => {
          const { small, big: large } = await import('./room/index.ts');
          const { length } = (await import('./room/index.ts')).big;
          return [one satisfies string, small, large.length === length, length as Size];
        };`,
    });
    expect(initBytes).toBeLessThan(1000);
    expect(bytes - initBytes).toBeGreaterThan(10_000);
    const { handler } = (await import(pathToFileURL(join(directory, 'index.mjs')).href)) as { handler: () => unknown };
    expect(await handler()).toEqual(['small', 'small', true, 10_000]);
  });

  it('refuses to load a whole room later', async () => {
    const lazy = { ...ROOM, 'entry.ts': `export const handler = () => import('./room/index.ts');` };
    await expect(bundle(lazy)).rejects.toThrow(/entry\.ts: write const \{ name \} = await import\(door\);/);
  });

  it('allows a native package where it is loaded lazily', async () => {
    await bundle({ 'entry.ts': `export const handler = () => import('zeromq');` });
  });

  it('refuses a native package that loads with the function, and names who imports it', async () => {
    const files = { 'entry.ts': `export * from './plane.ts';`, 'plane.ts': `export { Push } from 'zeromq';` };
    await expect(bundle(files)).rejects.toThrow(/zeromq has native code.*in plane\.ts/);
  });

  it('packs what a cold start does not need, the page at /docs and schemas of bodies, outside of what it loads', async () => {
    const { directory, bytes, initBytes } = await bundleFunction({ outdir: join(root, 'http') });
    const hasSchemas = (name: string): boolean => readFileSync(join(directory, name), 'utf8').includes('ZodObject');
    const files = readdirSync(directory).filter((name) => name.endsWith('.mjs'));
    expect(files.filter(hasSchemas)).toHaveLength(1);
    expect(hasSchemas('init.mjs')).toBe(false);
    expect(readdirSync(join(directory, 'swagger-ui'))).toEqual(
      expect.arrayContaining(['swagger-ui.css', 'swagger-ui-bundle.js', 'LICENSE']),
    );
    expect(bytes - initBytes).toBeGreaterThan(1_000_000);
    const init = readFileSync(join(directory, 'init.mjs'), 'utf8');
    const { name, version, description, license } = packageJson; // the list of packages stays out
    expect(init).toContain(`{name:"${name}",version:"${version}",description:"${description}",license:"${license}"}`);
    expect(init).toContain('--host-runner STATOR_HOST_RUNNER');
    expect(init).not.toContain('How workers run'); // the help text of that flag
  });

  it('packs no client of NATS, which the settings of a function refuse', async () => {
    const { directory } = await bundleFunction({ outdir: join(root, 'http') });
    const files = readdirSync(directory).filter((name) => name.endsWith('.mjs'));
    // A field of the protocol, which no minifier renames.
    const speaksNats = (name: string): boolean => readFileSync(join(directory, name), 'utf8').includes('max_payload');
    expect(files.filter(speaksNats)).toEqual([]);
  });

  it('takes modules of Node without having them looked at name by name, in whatever way they are imported', async () => {
    const { directory } = await bundle({
      'entry.ts': `
        import whole, { join as joined } from 'node:path';
        import * as every from 'node:util';
        import { Agent } from 'node:http';
        export const handler = async () => {
          const later = await import('node:http');
          const { sep } = (await import('./lazy.ts')).path;
          return [joined('a', 'b'), whole.sep, every.inspect('c'), later.default.Agent === Agent, later.Agent === Agent, sep];
        };`,
      'lazy.ts': `import path from 'node:path'; export { path };`,
    });
    const files = readdirSync(directory).map((name) => readFileSync(join(directory, name), 'utf8'));
    expect(files.join('')).not.toMatch(/from ?"node:|import ?\(?"node:/);
    const { handler } = (await import(pathToFileURL(join(directory, 'index.mjs')).href)) as { handler: () => unknown };
    expect(await handler()).toEqual(['a/b', '/', "'c'", true, true, '/']);
  });

  it('leaves nothing of an earlier bundle behind', async () => {
    await bundle({ 'entry.ts': `export const handler = () => import('./a.ts');`, 'a.ts': 'export const a = 1;' });
    const { directory } = await bundle({ 'entry.ts': 'export const handler = 1;' });
    expect(readdirSync(directory)).toEqual(['index.mjs', 'init.mjs']);
  });
});
