import { constants } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { installOnce } from './install-once.ts';
import { goCaches } from './kserve-go.ts';
import { inEitherWay, unpackProgram } from './packaged-program.ts';
import { cacheRoot, pathIfPresent, programOnPath, runCommand, type Tool } from './tool.ts';

const VERSION = '3.5.17';
const BUILD_MS_MAX = 8 * 60_000;

/**
 * etcd: the one on PATH, otherwise unpacked from the distribution's package (without root), otherwise built with Go.
 */
export const etcd: Tool = {
  name: 'etcd',
  variable: 'STATOR_TEST_ETCD_BIN',
  neededBy: 'suites against an etcd cluster',
  findInstalled: async () => (await programOnPath('etcd')) ?? (await cachedBinary()),
  async install() {
    await installOnce(folder(), async () => (await cachedBinary()) !== undefined, fill);
    return binaryIn(folder());
  },
};

async function fill(scratchFolder: string): Promise<void> {
  await mkdir(join(scratchFolder, 'bin'), { recursive: true });
  await inEitherWay(
    () => unpackProgram({ package: 'etcd-server', path: 'usr/bin/etcd' }, scratchFolder, binaryIn(scratchFolder)),
    () => buildWithGo(scratchFolder),
  );
}

/**
 * Builds it as the main package of its module, which a module of our own requires: `go install` refuses its
 * replacements.
 */
async function buildWithGo(scratchFolder: string): Promise<void> {
  const source = join(scratchFolder, 'source');
  await mkdir(source);
  await writeFile(
    join(source, 'go.mod'),
    `module stator.test/etcd\n\ngo 1.22\n\nrequire go.etcd.io/etcd/server/v3 v${VERSION}\n`,
  );
  await writeFile(
    join(source, 'tools.go'),
    '//go:build tools\n\npackage tools\n\nimport _ "go.etcd.io/etcd/server/v3"\n',
  );
  const options = { timeoutMs: BUILD_MS_MAX, env: { ...process.env, ...goCaches, GOFLAGS: '-mod=mod' }, cwd: source };
  await runCommand(
    'go',
    ['build', '-ldflags=-s -w', '-o', binaryIn(scratchFolder), 'go.etcd.io/etcd/server/v3'],
    options,
  );
}

function cachedBinary(): Promise<string | undefined> {
  return pathIfPresent(binaryIn(folder()), constants.X_OK);
}

function binaryIn(installation: string): string {
  return join(installation, 'bin', 'etcd');
}

function folder(): string {
  return join(cacheRoot(), `etcd-${VERSION}`);
}
