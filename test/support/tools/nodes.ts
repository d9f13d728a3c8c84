import { constants } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { installOnce } from './install-once.ts';
import { cacheRoot, pathIfPresent, runCommand, type Tool } from './tool.ts';

/** The releases of Node that the README promises, by their major version. */
export const NODE_VERSIONS: ReadonlyMap<number, string> = new Map([
  [20, '20.20.2'],
  [22, '22.23.3'],
  [24, '24.21.0'],
]);

const INSTALL_MS_MAX = 5 * 60_000;
const ownMajor = Number(process.versions.node.split('.')[0]);
const wanted = [...NODE_VERSIONS].filter(([major]) => major !== ownMajor);
const name = `Node ${wanted.map(([, version]) => version).join(' and ')}`;

/**
 * Returns the path of `node` of a major version: this process's own, or the one below the folder of an installation.
 */
export function nodeIn(installation: string, major: number): string {
  return major === ownMajor ? process.execPath : join(installation, `node_modules/node-${major}/bin/node`);
}

/** The releases of Node other than the one that runs the tests, from the packages that contain their binaries. */
export const nodes: Tool = {
  name,
  variable: 'STATOR_TEST_NODES',
  neededBy: 'the smoke test on every supported Node; the function on the deployed one',
  findInstalled: async () => ((await isComplete()) ? folder() : undefined),
  async install() {
    await installOnce(folder(), isComplete, fill);
    return folder();
  },
};

async function isComplete(): Promise<boolean> {
  const binaries = wanted.map(([major]) => pathIfPresent(nodeIn(folder(), major), constants.X_OK));
  return (await Promise.all(binaries)).every((path) => path !== undefined);
}

async function fill(scratchFolder: string): Promise<void> {
  await mkdir(scratchFolder, { recursive: true });
  const binaries = `node-${process.platform}-${process.arch}`;
  const packages = wanted.map(([major, version]) => `node-${major}@npm:${binaries}@${version}`);
  await runCommand('npm', ['install', '--prefix', scratchFolder, '--no-audit', '--no-fund', ...packages], {
    timeoutMs: INSTALL_MS_MAX,
  });
}

function folder(): string {
  return join(cacheRoot(), `nodes-${wanted.map(([, version]) => version).join('-')}`);
}
