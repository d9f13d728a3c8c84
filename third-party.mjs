// Describes the code of others that is inside the package. dist/sbom.cdx.json is a bill of materials (CycloneDX 1.5, as
// `npm sbom` writes it), without packages that only build and test. dist/THIRD-PARTY-LICENSES.txt has the licence of
// each package that is bundled.
import { execFile } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';

/** Licences that may be bundled: they ask for their text to go along, which it does, and for nothing else. */
const ALLOWED = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'ISC',
  'MIT',
  'Unlicense',
]);
const LICENCE_FILE = /^(licen[cs]e|notice|copying)([.-].*)?$/i;

/**
 * Writes both files.
 * @param {readonly string[]} inputs paths of the files that the bundles are made of
 * @throws when a package's licence is not one of those that may be bundled
 */
export async function describeThirdParties(inputs) {
  const folders = [
    ...new Set(inputs.flatMap((path) => path.match(/^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/) ?? [])),
  ];
  const packages = await Promise.all(folders.sort().map(readPackage));
  await writeFile('dist/THIRD-PARTY-LICENSES.txt', licenceTexts(packages));
  await writeFile('dist/sbom.cdx.json', `${JSON.stringify(await billOfMaterials(packages), undefined, 1)}\n`);
}

async function readPackage(folder) {
  const { name, version, license } = JSON.parse(await readFile(`${folder}/package.json`, 'utf8'));
  const choices = String(license).replace(/[()]/g, '').split(' OR '); // AND binds before OR in SPDX
  if (!choices.some((ids) => ids.split(' AND ').every((id) => ALLOWED.has(id))))
    throw new Error(`${folder} has the licence "${license}", which is not one that may be bundled`);
  const files = (await readdir(folder)).filter((file) => LICENCE_FILE.test(file)).sort();
  const texts = await Promise.all(files.map((file) => readFile(`${folder}/${file}`, 'utf8')));
  const text = texts.map((each) => each.replaceAll('\r\n', '\n').trim()).join('\n\n');
  return { name, version, license, text };
}

/** Each text once, under the packages that have it: forty of them have the same Apache licence. */
function licenceTexts(packages) {
  const titlesOf = new Map();
  for (const { name, version, license, text } of packages)
    titlesOf.set(text, `${titlesOf.get(text) ?? ''}${name} ${version} (${license})\n`);
  return [...titlesOf].map(([text, titles]) => `${titles}\n${text}\n`).join(`\n${'-'.repeat(80)}\n\n`);
}

async function billOfMaterials(packages) {
  const args = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only'];
  const { stdout } = await promisify(execFile)('npm', args, { maxBuffer: 64 * 1024 * 1024 });
  const bill = JSON.parse(stdout);
  bill.metadata.component.name = 'stator'; // npm says the folder's name
  const bundled = new Set(packages.map(({ name, version }) => `${name}@${version}`));
  const isThere = ({ name, version, properties = [] }) =>
    bundled.has(`${name}@${version}`) || !properties.some((property) => property.name.endsWith(':development'));
  const components = bill.components.filter(isThere).map(({ scope, properties, ...component }) => component);
  const refs = new Set([bill.metadata.component['bom-ref'], ...components.map((component) => component['bom-ref'])]);
  const dependencies = bill.dependencies
    .filter(({ ref }) => refs.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => refs.has(each)) }));
  return { ...bill, components, dependencies };
}
