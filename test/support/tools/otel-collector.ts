import { createHash } from 'node:crypto';
import { constants, cpSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installOnce } from './install-once.ts';
import { goCaches } from './kserve-go.ts';
import { cacheRoot, pathIfPresent, runCommand, type Tool } from './tool.ts';

const SOURCES = fileURLToPath(new URL('../../e2e/otelcol-go/', import.meta.url));
const BUILD_MS_MAX = 10 * 60_000;

/** The OpenTelemetry Collector, built from its own modules with the parts that the suites need. */
export const otelCollector: Tool = {
  name: 'an OpenTelemetry Collector',
  variable: 'STATOR_TEST_OTELCOL',
  neededBy: 'the suite that sends traces and logs to the OpenTelemetry Collector',
  findInstalled,
  async install() {
    await installOnce(folder(), async () => (await findInstalled()) !== undefined, fill);
    return program();
  },
};

function program(): string {
  return join(folder(), 'otelcol');
}

function findInstalled(): Promise<string | undefined> {
  return pathIfPresent(program(), constants.X_OK);
}

async function fill(scratchFolder: string): Promise<void> {
  const source = join(scratchFolder, 'source');
  cpSync(SOURCES, source, { recursive: true });
  const options = { timeoutMs: BUILD_MS_MAX, env: { ...process.env, ...goCaches }, cwd: source };
  await runCommand('go', ['build', '-ldflags=-s -w', '-o', join(scratchFolder, 'otelcol'), '.'], options);
}

/** Returns a folder named after a hash of the sources, so that other sources make another program beside this one. */
function folder(): string {
  const hash = createHash('sha256');
  for (const name of readdirSync(SOURCES).sort()) hash.update(readFileSync(join(SOURCES, name)));
  return join(cacheRoot(), `otelcol-${hash.digest('hex').slice(0, 12)}`);
}
