import { constants } from 'node:fs';
import { mkdir, readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { reasonOf } from '../../../shared/errors/index.ts';
import { installOnce } from './install-once.ts';
import { goCaches } from './kserve-go.ts';
import { cacheRoot, pathIfPresent, programOnPath, runCommand, type Tool } from './tool.ts';

const VERSION = 'v0.305.0';
const BUILD_MS_MAX = 14 * 60_000;
const DOWNLOAD_MS_MAX = 2 * 60_000;
const PROGRAM = 'github.com/prometheus/prometheus/cmd/promtool';

/**
 * Prometheus' own check of pages: the one on PATH, otherwise from the distribution's package (without root), otherwise
 * built with Go.
 */
export const promtool: Tool = {
  name: 'promtool',
  variable: 'STATOR_TEST_PROMTOOL_BIN',
  neededBy: 'the check of every page of metrics by Prometheus',
  findInstalled: async () => (await programOnPath('promtool')) ?? (await cachedBinary()),
  async install() {
    await installOnce(folder(), async () => (await cachedBinary()) !== undefined, fill);
    return binaryIn(folder());
  },
};

async function fill(scratchFolder: string): Promise<void> {
  await mkdir(scratchFolder, { recursive: true });
  try {
    await unpackPackage(scratchFolder);
  } catch (packageFailure) {
    try {
      await buildWithGo(scratchFolder);
    } catch (goFailure) {
      throw new Error(`${reasonOf(packageFailure)}; ${reasonOf(goFailure)}`);
    }
  }
}

async function unpackPackage(cwd: string): Promise<void> {
  await runCommand('apt-get', ['download', 'prometheus'], { timeoutMs: DOWNLOAD_MS_MAX, cwd });
  const archive = (await readdir(cwd)).find((name) => name.endsWith('.deb'));
  if (archive === undefined) throw new Error('apt-get download prometheus left no package');
  await runCommand('dpkg', ['-x', archive, 'root'], { timeoutMs: DOWNLOAD_MS_MAX, cwd });
  await rename(join(cwd, 'root', 'usr', 'bin', 'promtool'), binaryIn(cwd));
}

/** Builds it as part of another module, because `go install` refuses a module that replaces others. Takes minutes. */
async function buildWithGo(cwd: string): Promise<void> {
  const options = { timeoutMs: BUILD_MS_MAX, cwd, env: { ...process.env, ...goCaches } };
  await runCommand('go', ['mod', 'init', 'stator/promtool'], options);
  await runCommand('go', ['get', `${PROGRAM}@${VERSION}`], options);
  await runCommand('go', ['build', '-o', binaryIn(cwd), PROGRAM], options);
}

function cachedBinary(): Promise<string | undefined> {
  return pathIfPresent(binaryIn(folder()), constants.X_OK);
}

function binaryIn(installation: string): string {
  return join(installation, 'promtool');
}

function folder(): string {
  return join(cacheRoot(), 'promtool-1');
}
