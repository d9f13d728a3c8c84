import { constants } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { installOnce } from './install-once.ts';
import { goCaches } from './kserve-go.ts';
import { inEitherWay, unpackProgram } from './packaged-program.ts';
import { cacheRoot, pathIfPresent, programOnPath, runCommand, type Tool } from './tool.ts';

const VERSION = 'v0.305.0';
const BUILD_MS_MAX = 14 * 60_000;
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
  await inEitherWay(
    () => unpackProgram({ package: 'prometheus', path: 'usr/bin/promtool' }, scratchFolder, binaryIn(scratchFolder)),
    () => buildWithGo(scratchFolder),
  );
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
