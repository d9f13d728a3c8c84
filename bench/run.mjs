// node bench/run.mjs FILE.ts [arguments...]
//
// Bundles one TypeScript file with what it imports and runs it: benchmarks and conformance runners, which are not
// shipped.
import { mkdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
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
/** Each file keeps its own address, so that what it looks for beside itself is found from the bundle too. */
const ownAddress = {
  name: 'own-address',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/](test|bench)[\\/].*\.ts$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8');
      return { loader: 'ts', contents: text.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href)) };
    });
  },
};
const options = { bundle: true, platform: 'node', format: 'esm', packages: 'external', logLevel: 'warning' };
await build({ ...options, plugins: [ownAddress], entryPoints: [entry], outfile });
process.argv.splice(1, process.argv.length, outfile, ...args);
await import(pathToFileURL(outfile).href);
