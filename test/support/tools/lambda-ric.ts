import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { installOnce } from './install-once.ts';
import { cacheRoot, pathIfPresent, runCommand, type Tool } from './tool.ts';

const VERSION = '3.3.0';
const INSTALL_MS_MAX = 3 * 60_000;

/**
 * The real Lambda runtime client. Its install script needs cmake, so it is fetched without scripts, and is never a
 * dependency.
 */
export const lambdaRic: Tool = {
  name: `aws-lambda-ric ${VERSION}`,
  variable: 'STATOR_TEST_LAMBDA_RIC',
  neededBy: 'suites that run the deployed bundle under the Lambda runtime client',
  findInstalled: () => pathIfPresent(packageFolder()),
  async install() {
    await installOnce(folder(), async () => (await pathIfPresent(packageFolder())) !== undefined, fetchPackage);
    return packageFolder();
  },
};

async function fetchPackage(scratchFolder: string): Promise<void> {
  await mkdir(scratchFolder, { recursive: true });
  await runCommand(
    'npm',
    [
      'install',
      '--ignore-scripts',
      '--no-audit',
      '--no-fund',
      '--no-save',
      '--prefix',
      scratchFolder,
      `aws-lambda-ric@${VERSION}`,
    ],
    { timeoutMs: INSTALL_MS_MAX },
  );
}

function folder(): string {
  return join(cacheRoot(), `aws-lambda-ric-${VERSION}`);
}

function packageFolder(): string {
  return join(folder(), 'node_modules', 'aws-lambda-ric');
}
