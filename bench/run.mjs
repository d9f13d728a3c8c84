// node bench/run.mjs FILE.ts [arguments...]
// Bundles one TypeScript file with what it imports and runs it: benchmarks and conformance runners, which are not shipped.
import { mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const [entry, ...args] = process.argv.slice(2);
if (entry === undefined) {
  console.error('which file? node bench/run.mjs FILE.ts [arguments...]');
  process.exit(2);
}
const folder = join('node_modules', '.cache', 'stator');
mkdirSync(folder, { recursive: true });
const outfile = join(folder, `${basename(entry).replace(/\.[cm]?ts$/, '')}.mjs`);
const options = { bundle: true, platform: 'node', format: 'esm', packages: 'external', logLevel: 'warning' };
await build({ ...options, entryPoints: [entry], outfile });
process.argv.splice(1, process.argv.length, outfile, ...args);
await import(pathToFileURL(outfile).href);
