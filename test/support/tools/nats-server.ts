import { constants } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { installOnce } from './install-once.ts';
import { inEitherWay, unpackProgram } from './packaged-program.ts';
import { cacheRoot, pathIfPresent, programOnPath, runCommand, type Tool } from './tool.ts';

const VERSION = '2.15.2';
const BUILD_MS_MAX = 8 * 60_000;

/**
 * The NATS server: the one on PATH, otherwise built with Go, otherwise unpacked from the distribution's package
 * (without root).
 */
export const natsServer: Tool = {
  name: `nats-server ${VERSION}`,
  variable: 'STATOR_TEST_NATS_BIN',
  neededBy: 'suites against a NATS server',
  findInstalled: async () => (await programOnPath('nats-server')) ?? (await cachedBinary()),
  async install() {
    await installOnce(folder(), async () => (await cachedBinary()) !== undefined, fill);
    return binaryIn(folder());
  },
};

async function fill(scratchFolder: string): Promise<void> {
  await mkdir(join(scratchFolder, 'bin'), { recursive: true });
  await inEitherWay(
    () => buildWithGo(scratchFolder),
    () =>
      unpackProgram({ package: 'nats-server', path: 'usr/sbin/nats-server' }, scratchFolder, binaryIn(scratchFolder)),
  );
}

async function buildWithGo(scratchFolder: string): Promise<void> {
  await runCommand('go', ['install', `github.com/nats-io/nats-server/v2@v${VERSION}`], {
    timeoutMs: BUILD_MS_MAX,
    env: { ...process.env, GOBIN: join(scratchFolder, 'bin') },
  });
}

function cachedBinary(): Promise<string | undefined> {
  return pathIfPresent(binaryIn(folder()), constants.X_OK);
}

function binaryIn(installation: string): string {
  return join(installation, 'bin', 'nats-server');
}

function folder(): string {
  return join(cacheRoot(), `nats-server-${VERSION}`);
}
