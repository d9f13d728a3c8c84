import { constants } from 'node:fs';
import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { installOnce } from './install-once.ts';
import { goCaches } from './kserve-go.ts';
import { cacheRoot, pathIfPresent, runCommand, type Tool } from './tool.ts';

const MODULE = 'sigs.k8s.io/lws';
const VERSION = 'v0.9.0';
const BUILD_MS_MAX = 30 * 60_000;

const folder = join(cacheRoot(), `lws-${VERSION}`);
const path = join(folder, 'lws-controller');
const findInstalled = (): Promise<string | undefined> => pathIfPresent(path, constants.X_OK);

/** Folder with the definitions of its kinds. */
export const groupDefinitions = join(folder, 'crds');

/**
 * The controller of LeaderWorkerSet. The build takes a few minutes after that of the API server. `go install` refuses
 * it, because it asks the proxy for a list of versions.
 */
export const groupController: Tool = {
  name: 'lws-controller',
  variable: 'STATOR_TEST_GROUP_CONTROLLER',
  neededBy: 'npm run test:kubernetes',
  findInstalled,
  async install() {
    await installOnce(folder, async () => (await findInstalled()) !== undefined, build);
    return path;
  },
};

async function build(scratchFolder: string): Promise<void> {
  const source = join(scratchFolder, 'source');
  await mkdir(source, { recursive: true });
  await writeFile(join(source, 'go.mod'), `module stator.test/lws\n\ngo 1.26.0\n\nrequire ${MODULE} ${VERSION}\n`);
  const env = { ...process.env, ...goCaches, GOFLAGS: `${goCaches.GOFLAGS} -mod=mod` };
  const options = { timeoutMs: BUILD_MS_MAX, env, cwd: source };
  const binary = join(scratchFolder, 'lws-controller');
  await runCommand('go', ['build', '-ldflags=-s -w', '-o', binary, `${MODULE}/cmd`], options);
  const definitions = join(goCaches.GOMODCACHE, `${MODULE}@${VERSION}`, 'config/crd/bases');
  await cp(definitions, join(scratchFolder, 'crds'), { recursive: true });
  await rm(source, { recursive: true });
}
