import { constants } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { installOnce } from './install-once.ts';
import { goCaches } from './kserve-go.ts';
import { cacheRoot, pathIfPresent, programOnPath, runCommand, type Tool } from './tool.ts';

const VERSION = 'v1.36.3';
/** Version of the modules that Kubernetes keeps beside its own. */
const STAGING = 'v0.36.3';
const MODULE = 'stator.test/apiserver';
const DOWNLOAD_MS_MAX = 10 * 60_000;
const BUILD_MS_MAX = 60 * 60_000;
const MAIN = `package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
`;

/**
 * The API server of Kubernetes: the one on PATH, otherwise built with Go. The build takes five minutes of two cores,
 * so only `npm run test:kubernetes` asks for it.
 */
export const kubeApiServer: Tool = {
  name: 'kube-apiserver',
  variable: 'STATOR_TEST_KUBE_APISERVER',
  neededBy: 'npm run test:kubernetes',
  findInstalled: async () => (await programOnPath('kube-apiserver')) ?? (await cachedBinary()),
  async install() {
    await installOnce(folder(), async () => (await cachedBinary()) !== undefined, fill);
    return binaryIn(folder());
  },
};

async function fill(scratchFolder: string): Promise<void> {
  const source = join(scratchFolder, 'source');
  await mkdir(source, { recursive: true });
  await writeFile(join(source, 'main.go'), MAIN);
  const env = { ...process.env, ...goCaches };
  const options = { timeoutMs: DOWNLOAD_MS_MAX, env, cwd: source };
  await writeFile(join(source, 'go.mod'), `module ${MODULE}\n\ngo 1.26.0\n`);
  await runCommand('go', ['mod', 'download', `k8s.io/kubernetes@${VERSION}`], options);
  await writeFile(join(source, 'go.mod'), await moduleText());
  await runCommand('go', ['mod', 'tidy'], options);
  const version = 'k8s.io/component-base/version';
  const flags = `-s -w -X ${version}.gitVersion=${VERSION} -X ${version}.gitMajor=1 -X ${version}.gitMinor=36`;
  const build = ['build', '-ldflags', flags, '-o', binaryIn(scratchFolder), '.'];
  await mkdir(join(scratchFolder, 'bin'));
  await runCommand('go', build, { ...options, timeoutMs: BUILD_MS_MAX });
}

/** The module of Kubernetes points at folders for its staging modules; their published copies replace them. */
async function moduleText(): Promise<string> {
  const text = await readFile(join(goCaches.GOMODCACHE, `k8s.io/kubernetes@${VERSION}`, 'go.mod'), 'utf8');
  const staged = [...text.matchAll(/^\s+(k8s\.io\/[a-z-]+) => \.\/staging/gm)].map(([, name]) => name);
  const replaced = staged.map((name) => `\t${name} => ${name} ${STAGING}`).join('\n');
  return `module ${MODULE}\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes ${VERSION}\n\nreplace (\n${replaced}\n)\n`;
}

function cachedBinary(): Promise<string | undefined> {
  return pathIfPresent(binaryIn(folder()), constants.X_OK);
}

function binaryIn(installation: string): string {
  return join(installation, 'bin', 'kube-apiserver');
}

function folder(): string {
  return join(cacheRoot(), `kube-apiserver-${VERSION}`);
}
