import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readTlsFiles, type TlsMaterial, watchTlsFiles } from '../../../../shared/frontends/node/tls-files.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { waitUntil } from '../../../support/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const FIXTURES = fileURLToPath(new URL('../../../fixtures/tls', import.meta.url));
let folder: string;
const paths = () => ({ cert: join(folder, 'tls.crt'), key: join(folder, 'tls.key') });

async function install(name: string, parts: readonly string[] = ['crt', 'key']): Promise<void> {
  for (const part of parts) await copyFile(join(FIXTURES, `${name}.${part}`), join(folder, `tls.${part}`));
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'stator-tls-'));
  await install('first');
});
afterEach(() => rm(folder, { recursive: true }));

async function follow() {
  const clock = new VirtualClock();
  const { logger, lines } = captureLogger();
  const changes: TlsMaterial[] = [];
  const current = await readTlsFiles(paths());
  const onChange = (material: TlsMaterial): void => void changes.push(material);
  const reader = watchTlsFiles(paths(), current, { clock, logger, onChange });
  return { clock, lines, changes, reader };
}

describe('the files of a certificate', () => {
  it.each([
    ['a file is missing', () => rm(paths().key), '--tls-key-path: cannot read'],
    ['the key is of another certificate', () => install('second', ['key']), 'belong together'],
    ['the certificate is not PEM', () => writeFile(paths().cert, 'hello'), '--tls-cert-path'],
  ])('are refused in one line that names the flag when %s', async (_what, spoil, text) => {
    await spoil();
    const error = await readTlsFiles(paths()).catch((thrown: Error) => thrown);
    expect((error as Error).message).toContain(text);
    expect((error as Error).message).not.toContain('\n');
  });

  it('are handed on when they change, and only then', async () => {
    const { changes, reader } = await follow();
    await reader.look();
    expect(changes).toHaveLength(0);
    await install('second');
    await reader.look();
    await reader.look();
    expect(changes).toEqual([await readTlsFiles(paths())]);
    reader.stop();
  });

  it('are looked at again and again until stopped', async () => {
    const { clock, changes, reader } = await follow();
    await install('second');
    await clock.advance(10_000);
    await waitUntil(() => changes.length === 1, { what: 'the new certificate' });
    reader.stop();
    expect(clock.pendingTimers).toBe(0);
  });

  it('stay as they were while only one of them has changed, which is logged once', async () => {
    const { changes, reader, lines } = await follow();
    await install('second', ['crt']);
    await reader.look();
    await reader.look();
    expect(changes).toHaveLength(0);
    expect(lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
    await install('second', ['key']);
    await reader.look();
    expect(changes).toHaveLength(1);
    reader.stop();
  });
});
