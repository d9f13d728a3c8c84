import { mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { type SpawnedProcess, type SpawnOptions, spawnNode } from './spawn-node.ts';

// Inside node_modules, so that the bundle finds packages as the sources do.
const BUNDLES = fileURLToPath(new URL('../../node_modules/.cache/stator-test/', import.meta.url));
let bundleCount = 0;

/** Bundles a TypeScript entry point and starts it in a Node process of its own. */
export async function spawnTypeScript(
  entry: URL,
  args: readonly string[],
  options: SpawnOptions = {},
): Promise<SpawnedProcess> {
  const outfile = join(BUNDLES, `${process.pid}-${bundleCount++}.mjs`);
  await mkdir(dirname(outfile), { recursive: true });
  await build({
    entryPoints: [fileURLToPath(entry)],
    outfile,
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'error',
  });
  const child = spawnNode([outfile, ...args], options);
  child.exited.then(() => rm(outfile, { force: true })).catch((error: Error) => process.emitWarning(error));
  return child;
}
