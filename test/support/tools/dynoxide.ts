import { constants } from 'node:fs';
import { join } from 'node:path';
import { installOnce } from './install-once.ts';
import { cacheRoot, pathIfPresent, runCommand, type Tool } from './tool.ts';

const VERSION = '3.2.0';
const BUILD_MS_MAX = 12 * 60_000;

/** DynamoDB's API on SQLite, built from crates.io; takes some minutes once. */
export const dynoxide: Tool = {
  name: `dynoxide ${VERSION}`,
  variable: 'STATOR_TEST_DYNOXIDE_BIN',
  neededBy: 'suites against a DynamoDB server',
  findInstalled: () => pathIfPresent(binary(), constants.X_OK),
  async install() {
    await installOnce(
      folder(),
      async () => (await pathIfPresent(binary(), constants.X_OK)) !== undefined,
      (scratchFolder) =>
        runCommand(
          'cargo',
          [
            'install',
            '--quiet',
            '--locked',
            `dynoxide-rs@${VERSION}`,
            '--no-default-features',
            '--features',
            'native-sqlite,http-server,cli',
            '--root',
            scratchFolder,
          ],
          { timeoutMs: BUILD_MS_MAX },
        ),
    );
    return binary();
  },
};

function folder(): string {
  return join(cacheRoot(), `dynoxide-${VERSION}`);
}

function binary(): string {
  return join(folder(), 'bin', 'dynoxide');
}
