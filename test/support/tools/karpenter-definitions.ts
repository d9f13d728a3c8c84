import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { installOnce } from './install-once.ts';
import { goCaches } from './kserve-go.ts';
import { cacheRoot, pathIfPresent, runCommand, type Tool } from './tool.ts';

const MODULE = 'github.com/aws/karpenter-provider-aws';
const VERSION = 'v1.14.0';
const DOWNLOAD_MS_MAX = 10 * 60_000;

const folder = join(cacheRoot(), `karpenter-${VERSION}`);
const crds = join(folder, 'crds');
const findInstalled = (): Promise<string | undefined> => pathIfPresent(crds);

/** Definitions of Karpenter's kinds on AWS, of its Go module. Auto Mode has the same node pools. */
export const karpenterDefinitions: Tool = {
  name: 'definitions of Karpenter',
  variable: 'STATOR_TEST_KARPENTER_CRDS',
  neededBy: 'npm run test:kubernetes',
  findInstalled,
  async install() {
    await installOnce(folder, async () => (await findInstalled()) !== undefined, download);
    return crds;
  },
};

async function download(scratchFolder: string): Promise<void> {
  const source = join(scratchFolder, 'source');
  await mkdir(source, { recursive: true });
  await writeFile(join(source, 'go.mod'), 'module stator.test/karpenter\n\ngo 1.26.0\n');
  const options = { timeoutMs: DOWNLOAD_MS_MAX, env: { ...process.env, ...goCaches }, cwd: source };
  await runCommand('go', ['mod', 'download', `${MODULE}@${VERSION}`], options);
  await cp(join(goCaches.GOMODCACHE, `${MODULE}@${VERSION}`, 'pkg/apis/crds'), join(scratchFolder, 'crds'), {
    recursive: true,
  });
  await rm(source, { recursive: true });
}
