import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { bundleFunction } from '../../infra/bundle.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'stator-bundle-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function bundle(files: Record<string, string>): ReturnType<typeof bundleFunction> {
  for (const [name, text] of Object.entries(files)) writeFileSync(join(root, name), text);
  return bundleFunction({ root, entry: 'entry.ts', outdir: 'out' });
}

describe('bundleFunction', () => {
  it('keeps lazily imported modules out of what a cold start loads', () => {
    const lazy = `export const text = '${'x'.repeat(10_000)}';`;
    const result = bundle({
      'entry.ts': `export const handler = async () => (await import('./lazy.ts')).text;`,
      'lazy.ts': lazy,
    });
    expect(readdirSync(result.directory)).toContain('index.mjs');
    expect(result.bytes - result.initBytes).toBeGreaterThan(10_000);
    expect(result.initBytes).toBeLessThan(1000);
  });

  it('allows a native package where it is loaded lazily', () => {
    expect(() => bundle({ 'entry.ts': `export const handler = () => import('zeromq');` })).not.toThrow();
  });

  it('refuses a native package that loads with the function, and names who imports it', () => {
    const files = { 'entry.ts': `export * from './plane.ts';`, 'plane.ts': `export { Push } from 'zeromq';` };
    expect(() => bundle(files)).toThrow(/zeromq has native code.*in plane\.ts/);
  });

  it('packs the page at /docs beside the function, and schemas of bodies, outside of what a cold start loads', () => {
    const { directory, bytes, initBytes } = bundleFunction({ outdir: join(root, 'http') });
    const hasSchemas = (name: string): boolean => readFileSync(join(directory, name), 'utf8').includes('ZodObject');
    const files = readdirSync(directory).filter((name) => name.endsWith('.mjs'));
    expect(files.filter(hasSchemas)).toHaveLength(1);
    expect(hasSchemas('init.mjs')).toBe(false);
    expect(readdirSync(join(directory, 'swagger-ui'))).toEqual(
      expect.arrayContaining(['swagger-ui.css', 'swagger-ui-bundle.js', 'LICENSE']),
    );
    expect(bytes - initBytes).toBeGreaterThan(1_000_000);
  });

  it('takes modules of Node without having them looked at name by name, in whatever way they are imported', async () => {
    const { directory } = bundle({
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

  it('leaves nothing of an earlier bundle behind', () => {
    bundle({ 'entry.ts': `export const handler = () => import('./a.ts');`, 'a.ts': 'export const a = 1;' });
    const { directory } = bundle({ 'entry.ts': 'export const handler = 1;' });
    expect(readdirSync(directory)).toEqual(['index.mjs', 'init.mjs']);
  });
});
