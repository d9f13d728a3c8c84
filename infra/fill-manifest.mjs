// Puts the values of a deployment into a manifest that its synthesis wrote, and prints the result:
//
//   VALUES | node infra/fill-manifest.mjs cdk.out/k8s/STACK.yaml
//
// VALUES is the JSON of the output ManifestValues of that stack. docs/kubernetes.md has the whole command.
import { readFileSync } from 'node:fs';

const [path, ...others] = process.argv.slice(2);
if (path === undefined || others.length > 0) fail('usage: VALUES | node infra/fill-manifest.mjs FILE');
const values = parse(read(0, 'the standard input'));
const missing = new Set();
const text = read(path, path).replaceAll(/<stator:([A-Za-z0-9_]+)>/g, (place, name) => {
  const value = Object.hasOwn(values, name) ? values[name] : undefined;
  if (typeof value === 'string') return value;
  missing.add(name);
  return place;
});
if (missing.size > 0) fail(`the values lack ${[...missing].join(', ')}: deploy the stack that the file is named after`);
process.stdout.write(text);

/** @param {number | string} from @param {string} name @returns {string} */
function read(from, name) {
  try {
    return readFileSync(from, 'utf8');
  } catch (thrown) {
    return fail(`${name} cannot be read: ${thrown instanceof Error ? thrown.message : thrown}`);
  }
}

/** @param {string} json @returns {Record<string, unknown>} */
function parse(json) {
  try {
    const parsed = JSON.parse(json);
    if (typeof parsed === 'object' && parsed !== null) return parsed;
  } catch {
    // told below, like JSON of another kind
  }
  return fail('the standard input is no JSON object: it must be the output ManifestValues of the stack');
}

/** @param {string} message @returns {never} */
function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
