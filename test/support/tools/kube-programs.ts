import { constants } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { installOnce } from './install-once.ts';
import { goCaches } from './kserve-go.ts';
import { cacheRoot, pathIfPresent, programOnPath, runCommand, type Tool } from './tool.ts';

const VERSION = 'v1.36.3';
/** Version of the modules that Kubernetes keeps beside its own. */
const STAGING = 'v0.36.3';
const MODULE = 'stator.test/kubernetes';
const DOWNLOAD_MS_MAX = 10 * 60_000;
const BUILD_MS_MAX = 60 * 60_000;

interface KubeProgram extends Pick<Tool, 'name' | 'variable'> {
  /** Its main file. */
  readonly main: string;
}

/** The API server of Kubernetes. The build takes five minutes of two cores. */
export const kubeApiServer = kubeProgram({
  name: 'kube-apiserver',
  variable: 'STATOR_TEST_KUBE_APISERVER',
  main: `package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
`,
});

/**
 * The controllers of Kubernetes and its scheduler, as one program: `controller-manager` or `scheduler` comes before the
 * flags. After that of the API server, the build takes a minute or two.
 */
export const kubeControllers = kubeProgram({
  name: 'kube-controllers',
  variable: 'STATOR_TEST_KUBE_CONTROLLERS',
  main: `package main

import (
	"os"

	"k8s.io/component-base/cli"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	part := os.Args[1]
	os.Args = append(os.Args[:1], os.Args[2:]...)
	if part == "scheduler" {
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	}
	os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
}
`,
});

/**
 * Returns a program of Kubernetes: the one on PATH, otherwise built with Go. Only `npm run test:kubernetes` needs it.
 */
function kubeProgram({ name, variable, main }: KubeProgram): Tool {
  const folder = join(cacheRoot(), `${name}-${VERSION}`);
  const binaryIn = (installation: string): string => join(installation, 'bin', name);
  const cached = (): Promise<string | undefined> => pathIfPresent(binaryIn(folder), constants.X_OK);
  return {
    name,
    variable,
    neededBy: 'npm run test:kubernetes',
    findInstalled: async () => (await programOnPath(name)) ?? (await cached()),
    async install() {
      const isThere = async (): Promise<boolean> => (await cached()) !== undefined;
      await installOnce(folder, isThere, (scratchFolder) => build(scratchFolder, main, binaryIn(scratchFolder)));
      return binaryIn(folder);
    },
  };
}

async function build(scratchFolder: string, main: string, binary: string): Promise<void> {
  const source = join(scratchFolder, 'source');
  await mkdir(source, { recursive: true });
  await writeFile(join(source, 'main.go'), main);
  const env = { ...process.env, ...goCaches };
  const options = { timeoutMs: DOWNLOAD_MS_MAX, env, cwd: source };
  await writeFile(join(source, 'go.mod'), `module ${MODULE}\n\ngo 1.26.0\n`);
  await runCommand('go', ['mod', 'download', `k8s.io/kubernetes@${VERSION}`], options);
  await writeFile(join(source, 'go.mod'), await moduleText());
  await runCommand('go', ['mod', 'tidy'], options);
  const version = 'k8s.io/component-base/version';
  const flags = `-s -w -X ${version}.gitVersion=${VERSION} -X ${version}.gitMajor=1 -X ${version}.gitMinor=36`;
  await mkdir(join(scratchFolder, 'bin'));
  await runCommand('go', ['build', '-ldflags', flags, '-o', binary, '.'], { ...options, timeoutMs: BUILD_MS_MAX });
}

/** The module of Kubernetes points at folders for its staging modules; their published copies replace them. */
async function moduleText(): Promise<string> {
  const text = await readFile(join(goCaches.GOMODCACHE, `k8s.io/kubernetes@${VERSION}`, 'go.mod'), 'utf8');
  const staged = [...text.matchAll(/^\s+(k8s\.io\/[a-z-]+) => \.\/staging/gm)].map(([, name]) => name);
  const replaced = staged.map((name) => `\t${name} => ${name} ${STAGING}`).join('\n');
  return `module ${MODULE}\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes ${VERSION}\n\nreplace (\n${replaced}\n)\n`;
}
