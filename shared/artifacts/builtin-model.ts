import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Name of the folder in the source tree and beside the bundles. */
const FOLDER = 'builtin-model';

/** Returns the folder of the model that comes with the product: a small tokenizer, no weights. */
export function builtinModelPath(): string {
  // From sources it lies beside this file; from a bundle it lies in dist/ or in dist/chunks/.
  const here = dirname(fileURLToPath(import.meta.url));
  const places = [join(here, FOLDER), join(here, '..', FOLDER)];
  const found = places.find((place) => existsSync(place));
  if (found === undefined) throw new Error(`${FOLDER} is missing from ${here}; build again with: npm run build`);
  return found;
}

let text: string | undefined;

/** Returns the text that mock engines recite: English paragraphs, separated by blank lines, about 6 kB. Read once. */
export function builtinText(): string {
  text ??= readFileSync(join(builtinModelPath(), 'text.txt'), 'utf8');
  return text;
}
