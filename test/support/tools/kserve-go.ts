import { createHash } from 'node:crypto';
import { constants, cpSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installOnce } from './install-once.ts';
import { triton } from './python.ts';
import { cacheRoot, pathIfPresent, runCommand, type Tool } from './tool.ts';

const SOURCES = fileURLToPath(new URL('../../e2e/kserve-go/', import.meta.url));
const PROTOS = fileURLToPath(new URL('../../../proto/', import.meta.url));
const FILES = ['grpc_service.proto', 'model_config.proto'];
const PLUGINS = [
  'google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12',
  'google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2',
];
const BUILD_MS_MAX = 8 * 60_000;

/** Folders in which Go keeps what it downloaded and compiled for the tests. They stay the same for every build. */
export const goCaches = {
  GOMODCACHE: join(cacheRoot(), 'go/mod'),
  GOCACHE: join(cacheRoot(), 'go/build'),
  GOFLAGS: '-modcacherw -buildvcs=false',
} as const;

/**
 * A KServe client made with grpc-go and stubs of proto/. Its program is `kserve-client` in the folder, beside the
 * plugins that make stubs.
 */
export const kserveGo: Tool = {
  name: 'a KServe client in Go',
  variable: 'STATOR_TEST_KSERVE_GO',
  neededBy: 'suites that drive the server with grpc-go, and the Go of docs/kserve.md',
  findInstalled,
  async install() {
    await installOnce(folder(), async () => (await findInstalled()) !== undefined, fill);
    return folder();
  },
};

async function findInstalled(): Promise<string | undefined> {
  const program = await pathIfPresent(join(folder(), 'kserve-client'), constants.X_OK);
  return program === undefined ? undefined : folder();
}

async function fill(scratchFolder: string): Promise<void> {
  const python = (await triton.findInstalled()) ?? (await triton.install()); // contains protoc
  const env = { ...process.env, ...goCaches, GOBIN: scratchFolder, PATH: `${scratchFolder}:${process.env.PATH}` };
  for (const plugin of PLUGINS) await runCommand('go', ['install', plugin], { timeoutMs: BUILD_MS_MAX, env });
  const source = join(scratchFolder, 'source');
  cpSync(SOURCES, source, { recursive: true });
  const module = ['module=stator/kserve', ...FILES.map((file) => `M${file}=stator/kserve/inference`)].join(',');
  const out = ['go', 'go-grpc'].flatMap((kind) => [`--${kind}_out=${source}`, `--${kind}_opt=${module}`]);
  const protoc = ['-m', 'grpc_tools.protoc', '-I', PROTOS, ...out, ...FILES];
  await runCommand(python, protoc, { timeoutMs: BUILD_MS_MAX, env });
  // the only modules that `go get` checks
  await runCommand('go', ['mod', 'download'], { timeoutMs: BUILD_MS_MAX, env, cwd: source });
  const build = ['build', '-o', join(scratchFolder, 'kserve-client'), '.'];
  await runCommand('go', build, { timeoutMs: BUILD_MS_MAX, env, cwd: source });
}

/** Returns a folder named after a hash of the sources, so that other sources make another program beside this one. */
function folder(): string {
  const hash = createHash('sha256').update(PLUGINS.join('\n'));
  for (const name of readdirSync(SOURCES).sort()) hash.update(readFileSync(join(SOURCES, name)));
  for (const name of FILES) hash.update(readFileSync(join(PROTOS, name)));
  return join(cacheRoot(), `kserve-go-${hash.digest('hex').slice(0, 12)}`);
}
