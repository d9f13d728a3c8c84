import { basename, delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installOnce } from './install-once.ts';
import { cacheRoot, pathIfPresent, runCommand, type Tool } from './tool.ts';

/** The oldest release that is served, and the newest that has a build for CPUs. */
const VERSIONS = ['0.20.2', '0.32.0'];
const VARIABLE = 'STATOR_TEST_VLLM';
const INSTALL_MS_MAX = 60 * 60_000;
const SETUP = fileURLToPath(new URL('vllm-setup.py', import.meta.url));
const TOKENIZER = fileURLToPath(new URL('../../../shared/artifacts/builtin-model', import.meta.url));

/**
 * Real vLLMs for CPUs, each with a tiny random model: 3 GB to download, 6 GB on disk, some minutes for each. Only
 * `npm run test:vllm` installs them; the plain test run uses those that are there already.
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

/** The folders of those that are installed, oldest first; `STATOR_TEST_VLLM` names others, joined as in `PATH`. */
export async function installedVllms(): Promise<readonly string[]> {
  const named = process.env[VARIABLE]?.split(delimiter).filter((folder) => folder !== '') ?? [];
  if (named.length > 0) return named;
  const found = await Promise.all(vllms.map((tool) => tool.findInstalled()));
  return found.filter((folder) => folder !== undefined);
}

/** What the vLLM in `folder` is called: `vllm-0.32.0`. */
export function vllmName(folder: string): string {
  return basename(folder);
}

/**
 * How the vLLM in `folder` is started: as a module, as its scripts name the folder in which they were made; on one core and
 * at the lowest priority, as its processes spin while they wait and leave small machines nothing for anybody else.
 */
export function vllmCommand(folder: string): string {
  return `taskset -c 0 nice -n 19 ${join(folder, 'venv', 'bin', 'python')} -m vllm.entrypoints.cli.main`;
}
