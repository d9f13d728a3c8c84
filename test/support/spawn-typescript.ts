import { mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { type SpawnedProcess, type SpawnOptions, spawnNode } from './spawn-node.ts';

// Inside node_modules, so that the bundle finds packages as the sources do.
const BUNDLES = fileURLToPath(new URL('../../node_modules/.cache/stator-test/', import.meta.url));
let bundleCount = 0;

/** A bundle that processes run from. */
interface Bundle {
  readonly outfile: string;
  readonly built: Promise<unknown>;
  users: number;
}

/** Bundles by entry point, each kept while a process runs from it. */
const bundles = new Map<string, Bundle>();

/** Bundles a TypeScript entry point and starts it in a Node process of its own. */
export async function spawnTypeScript(
  entry: URL,
  args: readonly string[],
  options: SpawnOptions = {},
): Promise<SpawnedProcess> {
  const bundle = bundles.get(entry.href) ?? bundled(entry);
  bundles.set(entry.href, bundle);
  bundle.users++;
  const release = async (): Promise<void> => {
    if (--bundle.users > 0) return;
    bundles.delete(entry.href);
    await rm(bundle.outfile, { force: true });
  };
  try {
    await bundle.built;
  } catch (error) {
    await release();
    throw error;
  }
  const child = spawnNode([bundle.outfile, ...args], options);
  child.exited.then(release).catch((error: Error) => process.emitWarning(error));
  return child;
}

function bundled(entry: URL): Bundle {
  const outfile = join(BUNDLES, `${process.pid}-${bundleCount++}.mjs`);
  const built = mkdir(dirname(outfile), { recursive: true }).then(() =>
    build({
      entryPoints: [fileURLToPath(entry)],
      outfile,
      bundle: true,
      packages: 'external',
      platform: 'node',
      format: 'esm',
      target: 'node20',
      logLevel: 'error',
    }),
  );
  return { outfile, built, users: 0 };
}
