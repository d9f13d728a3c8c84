import { constants } from 'node:fs';
import { basename, join } from 'node:path';
import { installOnce } from './install-once.ts';
import { goCaches } from './kserve-go.ts';
import { cacheRoot, pathIfPresent, runCommand, type Tool } from './tool.ts';

const BUILD_MS_MAX = 14 * 60_000;

interface GoProgram extends Pick<Tool, 'variable' | 'neededBy'> {
  /** Path of the program's main package. Its last part is the name of the program. */
  readonly program: string;
  readonly version: string;
}

/** Helm, which renders the chart of `deploy/kubernetes`. Takes some minutes once. */
export const helm = goProgram({
  program: 'helm.sh/helm/v3/cmd/helm',
  version: 'v3.22.0',
  variable: 'STATOR_TEST_HELM_BIN',
  neededBy: 'suites that render the Helm chart',
});

/**
 * Returns a program that `go install` builds. The version of Helm decides what the committed manifests look like, so no
 * program of PATH replaces it.
 */
function goProgram({ program, version, ...tool }: GoProgram): Tool {
  const name = basename(program);
  const folder = join(cacheRoot(), `${name}-${version}`);
  const path = join(folder, name);
  const findInstalled = (): Promise<string | undefined> => pathIfPresent(path, constants.X_OK);
  return {
    ...tool,
    name: `${name} ${version}`,
    findInstalled,
    async install() {
      await installOnce(
        folder,
        async () => (await findInstalled()) !== undefined,
        (scratchFolder) =>
          runCommand('go', ['install', '-ldflags=-s -w', `${program}@${version}`], {
            timeoutMs: BUILD_MS_MAX,
            env: { ...process.env, ...goCaches, GOBIN: scratchFolder },
          }),
      );
      return path;
    },
  };
}
