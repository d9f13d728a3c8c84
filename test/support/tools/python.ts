import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { join } from 'node:path';
import { installOnce } from './install-once.ts';
import { cacheRoot, pathIfPresent, runCommand, type Tool } from './tool.ts';

const REQUIREMENTS = ['openai==3.52.0', 'anthropic==2.11.0'] as const;
const INSTALL_MS_MAX = 5 * 60_000;

/** A virtual environment with the official Python SDKs. */
export const python: Tool = {
  name: `Python with ${REQUIREMENTS.join(', ')}`,
  variable: 'STATOR_TEST_PYTHON',
  neededBy: 'suites that drive the server with the official Python SDKs',
  findInstalled: () => pathIfPresent(interpreterIn(folder()), constants.X_OK),
  async install() {
    await installOnce(
      folder(),
      async () => (await pathIfPresent(interpreterIn(folder()), constants.X_OK)) !== undefined,
      fillEnvironment,
    );
    return interpreterIn(folder());
  },
};

async function fillEnvironment(scratchFolder: string): Promise<void> {
  await runCommand('python3', ['-m', 'venv', scratchFolder], { timeoutMs: INSTALL_MS_MAX });
  await runCommand(
    interpreterIn(scratchFolder),
    ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--retries', '1', ...REQUIREMENTS],
    { timeoutMs: INSTALL_MS_MAX },
  );
}

// The name carries the content, so a changed pin makes a new environment beside the old one.
function folder(): string {
  const hash = createHash('sha256').update(REQUIREMENTS.join('\n')).digest('hex').slice(0, 12);
  return join(cacheRoot(), `python-${hash}`);
}

function interpreterIn(environment: string): string {
  return join(environment, 'bin', 'python');
}
