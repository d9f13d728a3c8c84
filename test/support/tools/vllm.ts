import { basename, delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installOnce } from './install-once.ts';
import { cacheRoot, pathIfPresent, runCommand, type Tool } from './tool.ts';

/** The oldest release that Stator supports, and the newest with a build for CPUs. */
const VERSIONS = ['0.20.2', '0.32.0'];
const VARIABLE = 'STATOR_TEST_VLLM';
const INSTALL_MS_MAX = 60 * 60_000;
const SETUP = fileURLToPath(new URL('vllm-setup.py', import.meta.url));
const TOKENIZER = fileURLToPath(new URL('../../../shared/artifacts/builtin-model', import.meta.url));

/**
 * Real vLLMs for CPUs, each with a tiny random model: 3 GB to download, 6 GB on disk, some minutes for each. Only `npm
 * run test:vllm` installs them. The plain test run uses those that are already installed.
 */
export const vllms: readonly Tool[] = VERSIONS.map((version) => {
  const folder = join(cacheRoot(), `vllm-${version}`);
  const findInstalled = async (): Promise<string | undefined> =>
    (await pathIfPresent(join(folder, 'model', 'model.safetensors'))) === undefined ? undefined : folder;
  return {
    name: `vLLM ${version} for CPUs`,
    variable: VARIABLE,
    neededBy: 'the run against a real engine',
    findInstalled,
    async install() {
      await installOnce(
        folder,
        async () => (await findInstalled()) !== undefined,
        (scratchFolder) => fill(scratchFolder, version),
      );
      return folder;
    },
  };
});

async function fill(folder: string, version: string): Promise<void> {
  const environment = join(folder, 'venv');
  await runCommand('python3', ['-m', 'venv', environment], { timeoutMs: INSTALL_MS_MAX });
  const python = join(environment, 'bin', 'python');
  const args = [SETUP, version, TOKENIZER, join(folder, 'model')];
  await runCommand(python, args, { timeoutMs: INSTALL_MS_MAX });
}

/** Returns the folders of the installed ones, oldest first. `STATOR_TEST_VLLM` names others, joined as in `PATH`. */
export async function installedVllms(): Promise<readonly string[]> {
  const named = process.env[VARIABLE]?.split(delimiter).filter((folder) => folder !== '') ?? [];
  if (named.length > 0) return named;
  const found = await Promise.all(vllms.map((tool) => tool.findInstalled()));
  return found.filter((folder) => folder !== undefined);
}

/** Returns the name of the vLLM in `folder`: `vllm-0.32.0`. */
export function vllmName(folder: string): string {
  return basename(folder);
}

/**
 * Returns the command that starts the vLLM in `folder`. It starts a module, because its scripts name the folder in
 * which they were made. It uses one core and the lowest priority, because its processes spin while they wait and would
 * leave a small machine nothing for other processes.
 */
export function vllmCommand(folder: string): string {
  return `taskset -c 0 nice -n 19 ${join(folder, 'venv', 'bin', 'python')} -m vllm.entrypoints.cli.main`;
}
